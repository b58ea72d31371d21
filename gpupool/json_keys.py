"""Results as JSON: a row of keys for each class. Keys are contracts, so each is written down, in its order.

A key `nodesMax` is the attribute `nodes_max`, and `nodesMax=nodes` is `nodes`; `usd=budget.usd` is null where
there is no budget, `pool?` where it is empty. A class may have a function instead of a row.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

Keys = Mapping[type, str | Callable[[Any], Any]]
"""Class -> its keys, or what makes JSON of it."""


def json_of(value: Any, keys: Keys) -> Any:
    """`value` as JSON has it; what has a row in `keys` is an object, wherever it stands."""
    if row := keys.get(type(value)):
        if not isinstance(row, str):
            return row(value)
        return {name: json_of(_found(value, path, empty), keys) for name, path, empty in _entries(row)}
    if isinstance(value, Mapping):
        return {name: json_of(inner, keys) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_of(inner, keys) for inner in value]
    if isinstance(value, Fraction):
        return float(value)
    return value.isoformat() if isinstance(value, date) else str(value) if isinstance(value, Path) else value


@functools.cache
def _entries(row: str) -> list[tuple[str, list[str], bool]]:
    """Of each key its name, the attributes on the way to its value, and whether an empty value is null."""
    found = []
    for entry in row.split():
        key, _, path = entry.partition("=")
        name = key.rstrip("?")
        own = re.sub("[A-Z]", lambda big: f"_{big[0].lower()}", name)
        found.append((name, (path or own).split("."), key.endswith("?")))
    return found


def _found(value: Any, path: list[str], empty_is_null: bool) -> Any:
    for name in path:
        value = None if value is None else getattr(value, name)
    return (value or None) if empty_is_null else value
