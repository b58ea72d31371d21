"""What a conversion could not carry over, assumed, or found to be wrong: one entry for each.

This module has the wording and the order of the list; the account decides which values are in it
(`gpupool.convert.account`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from gpupool.spec.yaml_scalars import Unclear
from gpupool.terminal import one_line

Kind = Literal["left", "wrong", "assumed", "todo"]
"""left: gpupool has no place for it, or sets something else. wrong: it can't have worked as written.
assumed: the input does not say it, so something was chosen. todo: the written file needs it filled in."""

KINDS: tuple[Kind, ...] = ("todo", "wrong", "assumed", "left")
"""In the order in which they are shown."""
_SHOWN = 60
"""Characters of a value that are shown."""


@dataclass(frozen=True, slots=True)
class Leftover:
    """One thing that the written file does not say as the input does."""

    kind: Kind
    file: str
    line: int
    """0 for an object of a cluster, as is `column`."""
    column: int
    object: str
    path: str
    """Where in the object; empty for the object as a whole."""
    value: str
    """What stands there, cut short; empty where nothing does."""
    why: str
    advice: str
    """What to do, empty where nothing needs doing."""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        path = f": {self.path}" if self.path else ""
        value = f" = {self.value}" if self.value else ""
        advice = f"; {self.advice}" if self.advice else ""
        return one_line(f"{where}: {self.object}{path}{value}: {self.why}{advice}")

    def as_dict(self) -> dict[str, Any]:
        """The entry with the keys that `convert --format json` promises."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


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
