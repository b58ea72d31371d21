"""Results as JSON: a row of keys for each class. Keys are contracts, so each is written down, in its order.

A key `nodesMax` is the attribute `nodes_max`, and `nodesMax=nodes` is `nodes`; `pool?` is null where it is
empty.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

Keys = Mapping[type, str]
"""Class -> its keys."""


def json_of(value: Any, keys: Keys) -> Any:
    """`value` as JSON has it; what has a row in `keys` is an object, wherever it stands."""
    if row := keys.get(type(value)):
        return {name: json_of(found, keys) for name, found in _items(value, row)}
    if isinstance(value, Mapping):
        return {name: json_of(inner, keys) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_of(inner, keys) for inner in value]
    return value.isoformat() if isinstance(value, date) else str(value) if isinstance(value, Path) else value


def _items(value: Any, row: str) -> list[tuple[str, Any]]:
    found = []
    for entry in row.split():
        key, _, attribute = entry.partition("=")
        name = key.rstrip("?")
        inner = getattr(value, attribute or re.sub("[A-Z]", lambda big: f"_{big[0].lower()}", name))
        found.append((name, (inner or None) if key.endswith("?") else inner))
    return found
