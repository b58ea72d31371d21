"""What a conversion could not carry over, assumed, or found to be wrong: one entry for each.

This module has the wording and the order of the list; the account decides which values are in it
(`gpupool.adopt.convert.account`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from gpupool.environment.spec.yaml_scalars import Unclear
from gpupool.findings import Finding
from gpupool.findings.terminal import one_line

Kind = Literal["left", "wrong", "assumed", "todo"]
"""left: gpupool has no place for it, or sets something else. wrong: it can't have worked as written.
assumed: the input does not say it, so something was chosen. todo: the written file needs it filled in."""

KINDS: tuple[Kind, ...] = ("todo", "wrong", "assumed", "left")
"""In the order in which they are shown."""
_SHOWN = 60
"""Characters of a value that are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover(Finding):
    """One thing that the written file does not say as the input does: `what` says why. Its line is 0 for an
    object of a cluster."""

    code: str = "conversion"
    value: str = ""
    """What stands there, cut short; empty where nothing does."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "details", {"value": self.value})

    def __str__(self) -> str:
        path = f": {self.path}" if self.path else ""
        value = f" = {self.value}" if self.value else ""
        todo = f"; {self.remediation}" if self.remediation else ""
        return one_line(f"{self.place}: {self.object}{path}{value}: {self.what}{todo}")


def shown(value: Any) -> str:
    """A value as the list shows it: JSON on one line, cut where it is long."""
    if isinstance(value, Unclear):
        return value.text[:_SHOWN]
    text = value if isinstance(value, str) and value else json.dumps(_plain(value), ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _plain(value: Any, depth: int = 0) -> Any:
    if isinstance(value, Unclear):
        return value.text
    if isinstance(value, dict | list) and depth > 3:
        return "..."
    if isinstance(value, dict):
        return {key: _plain(inner, depth + 1) for key, inner in list(value.items())[:20]}
    if isinstance(value, list):
        return [_plain(inner, depth + 1) for inner in value[:20]]
    return value
