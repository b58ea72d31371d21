"""The data of `implied.yaml`: what gpupool sets on every object of a kind, and why it has no place for some
well-known fields."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml


@cache
def implied() -> dict[str, Any]:
    """The file's sections, each a mapping from field to value."""
    text = (Path(__file__).parent / "implied.yaml").read_text(encoding="utf-8")
    data: dict[str, Any] = yaml.safe_load(text)
    return data
