"""Plain values of a document: their leaves, and how readers of YAML interpret them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpupool.environment.spec.yaml_scalars import Unclear
from gpupool.environment.spec.yaml_source import Loc


def as_text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def as_whole(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 12:
        return int(value)
    ours = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**12
    return value if ours else None


def is_clear(value: Any) -> bool:
    """Whether all readers of YAML interpret the value alike."""
    if isinstance(value, dict | list):
        return all(map(is_clear, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, Unclear)


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same to a reader of YAML; 1 is not true."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def leaves(value: Any, loc: Loc) -> Iterator[Loc]:
    return (leaf for leaf, _ in walk(value, loc))


def walk(value: Any, loc: Loc) -> Iterator[tuple[Loc, Any]]:
    """Every leaf of `value`, which is at `loc`, with its value."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from walk(inner, (*loc, key))
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from walk(inner, (*loc, index))
    else:
        yield loc, value
