"""The routing of alerts that docs/monitoring.md shows."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import yaml

from tests.required_programs import absent

PAGE = Path(__file__).parents[3] / "docs" / "monitoring.md"


def routing() -> dict[str, Any]:
    """The Alertmanager's configuration of the page."""
    (text,) = re.findall(r"```yaml\n(route:\n.*?)```", PAGE.read_text(), re.DOTALL)
    shown: dict[str, Any] = yaml.safe_load(text)
    return shown


def program(name: str) -> str:
    """The path of `amtool` or `prometheus-alertmanager`."""
    path = shutil.which(name)
    if path is None:
        absent(f"no {name}; Debian: apt-get install prometheus-alertmanager")
    return path
