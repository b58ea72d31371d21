"""The data of `reasons.yaml`: why gpupool has no place for some well-known fields, and what to do."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml


@cache
def reasons() -> dict[str, dict[str, str]]:
    """Name of a field -> `what` and `remediation`."""
    text = (Path(__file__).parent / "reasons.yaml").read_text(encoding="utf-8")
    data: dict[str, dict[str, str]] = yaml.safe_load(text)
    return data
