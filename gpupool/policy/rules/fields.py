"""Reading unchecked objects: a field that is missing or of another type is empty, never an error.

The API server and the policies report what is wrong with such an object; bundle rules do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from vapcheck import amount

_NOTHING: Mapping[str, Any] = {}


def at(value: Any, *path: str) -> Any:
    """What is at `path` inside `value`, None where there is nothing."""
    for part in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def mapping(value: Any, *path: str) -> Mapping[str, Any]:
    """The mapping at `path`, empty where there is none. Keys that are not text are left out."""
    found = at(value, *path)
    if not isinstance(found, Mapping):
        return _NOTHING
    whole = all(isinstance(key, str) for key in found)
    return found if whole else {key: inner for key, inner in found.items() if isinstance(key, str)}


def items(value: Any, *path: str) -> list[Any]:
    """The list at `path`, empty where there is none."""
    found = at(value, *path)
    return found if isinstance(found, list) else []


def text(value: Any, *path: str) -> str:
    """The text at `path`, empty where there is none."""
    found = at(value, *path)
    return found if isinstance(found, str) else ""


def labels(value: Any, *path: str) -> Mapping[str, str]:
    """The labels at `path`; values that are not text are left out."""
    return {key: inner for key, inner in mapping(value, *path).items() if isinstance(inner, str)}


def count(value: Any) -> int | None:
    """A whole number as a quantity says it: 8, "8", "1k"; None for anything else. Extended resources know
    whole numbers only."""
    found = amount(value)
    return int(found) if found is not None and found.denominator == 1 else None


def parsed(document: Any) -> Mapping[str, Any] | None:
    """The mapping that YAML text inside an object holds; None where it holds none."""
    if not isinstance(document, str):
        return None
    try:
        value = yaml.load(document, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    return {str(key): inner for key, inner in value.items()} if isinstance(value, dict) else None
