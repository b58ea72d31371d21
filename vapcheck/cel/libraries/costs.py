"""What calls of the Kubernetes functions cost, in the API server's units.

Facts: apiserver 0.36 pkg/cel/library/cost.go (CallCost) and cel-go 0.26 ext/lists.go, common/cost.go. Only
the arithmetic is here; the evaluator enforces the limits. Also holds the costs of string functions that
the interpreter implements itself, because the API server counts them by the same table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from vapcheck.cel.libraries.declaration import Cost
from vapcheck.cel.values import Opaque

PER_CHARACTER = 0.1
"""Cost units of reading one character (cel-go common/cost.go)."""
_PER_PATTERN_CHARACTER = 0.25
_LIST = 10
_REQUIREMENT = 50
"""One requirement of a selector: a list and a struct."""


def size(value: Any) -> int:
    """Characters, bytes, elements or entries; 1 for whatever has no size."""
    if isinstance(value, Opaque):
        return value.size()
    return len(value) if isinstance(value, (str, bytes, dict, list, tuple)) else 1


def traversal(value: Any) -> int:
    """Cost of walking through a value with everything in it."""
    if isinstance(value, str):
        return int(len(value.encode("utf-8", "surrogatepass")) * PER_CHARACTER)
    if isinstance(value, bytes):
        return int(len(value) * PER_CHARACTER)
    if isinstance(value, dict):
        return sum(traversal(name) + traversal(entry) for name, entry in value.items())
    return sum(map(traversal, value)) if isinstance(value, (list, tuple)) else 1


def walk(count: int, times: int = 1) -> int:
    """Cost of reading `count` characters `times` times."""
    return math.ceil(count * times * PER_CHARACTER)


def matching(characters: int, pattern: int) -> int:
    """Cost of matching a text of so many characters against a pattern of so many."""
    return math.ceil((1.0 + characters) * PER_CHARACTER) * math.ceil(pattern * _PER_PATTERN_CHARACTER)


def authorization(_args: Sequence[Any], _result: Any) -> int:
    """So high that one expression affords two checks."""
    return 350_000


def first(args: Sequence[Any], _result: Any) -> int:
    """Reading the first argument once: parsers, startsWith()."""
    return math.ceil(size(args[0]) * PER_CHARACTER)


def first_twice(args: Sequence[Any], _result: Any) -> int:
    """Reading the first argument and building something as long."""
    return walk(size(args[0]), 2)


def elements(args: Sequence[Any], _result: Any) -> int:
    """Walking through everything in the first argument."""
    return traversal(args[0])


def result_twice(_args: Sequence[Any], result: Any) -> int:
    """Building the result: `join`."""
    return walk(size(result), 2)


def pattern(args: Sequence[Any], _result: Any) -> int:
    """`matches`, `find` and `findAll`."""
    return matching(size(args[0]), size(args[1]))


def contains_text(args: Sequence[Any], _result: Any) -> int:
    """Looking for one text in another."""
    return walk(size(args[0])) * walk(size(args[1]))


def selector(args: Sequence[Any], _result: Any) -> int:
    """Parsing a field or label selector."""
    length = size(args[1])
    return _LIST + walk(length) + math.ceil(length * 0.5) * _REQUIREMENT


def contains_address(args: Sequence[Any], _result: Any) -> int:
    """Whether a network contains an address, which may still have to be parsed."""
    return walk(2 * size(args[0])) + (walk(size(args[1])) if isinstance(args[1], str) else 0)


def contains_network(args: Sequence[Any], _result: Any) -> int:
    """Whether a network contains another, which may still have to be parsed."""
    return contains_address(args, None) + walk(size(args[0])) + 1


def result_size(_args: Sequence[Any], result: Any) -> int:
    """Making a list of the result's length."""
    return _making(size(result))


def flattening(args: Sequence[Any], _result: Any) -> int:
    """Going so many levels deep."""
    return _making(size(args[0]) * (args[1] if len(args) == 2 else 1))


def all_pairs(args: Sequence[Any], _result: Any) -> int:
    """Comparing all elements of the list, or of the keys to sort by, with each other."""
    keys = args[-1]
    factor = 2.0
    if keys and isinstance(keys[0], (str, bytes)):
        factor += PER_CHARACTER
    return _making(len(keys) ** 2 * factor)


def _making(amount: float) -> int:
    return int(amount) + 1 + _LIST


STRING_COSTS: Mapping[str, Cost] = {
    "lowerAscii": first,
    "upperAscii": first,
    "substring": first,
    "trim": first,
    "replace": first_twice,
    "split": first_twice,
    "join": result_twice,
    "indexOf": elements,
    "lastIndexOf": elements,
}
"""By function name, whatever the overload."""
