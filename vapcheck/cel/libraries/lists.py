"""The CEL list functions of Kubernetes: isSorted, sum, min, max, indexOf, lastIndexOf.

Facts: apiserver 0.36 pkg/cel/library/lists.go. All overloads of min, max and isSorted share one function. It
takes mixed lists (from objects of unknown type) as the API server does: what has no order counts as equal.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from vapcheck.cel.errors import CelError, EvaluationError, NoSuchOverload
from vapcheck.cel.libraries import costs
from vapcheck.cel.libraries.declaration import Overload, member
from vapcheck.cel.values import INT_MAX, INT_MIN, UINT_MAX, Duration, Uint, equal, kind

COMPARABLE = (
    "int",
    "uint",
    "double",
    "bool",
    "google.protobuf.Duration",
    "google.protobuf.Timestamp",
    "string",
    "bytes",
)
"""Kinds of values that have an order, in the order in which the API server declares their overloads."""
_NUMBERS = ("int", "uint", "double")
_ID_NAMES = {"google.protobuf.Duration": "duration", "google.protobuf.Timestamp": "timestamp"}
List = Sequence[Any]


def compare(left: Any, right: Any) -> int | None:
    """-1, 0 or 1, or None where CEL has no order: values of different kinds, or a NaN."""
    kinds = kind(left), kind(right)
    numbers = kinds[0] in _NUMBERS and kinds[1] in _NUMBERS
    if not numbers and kinds[0] != kinds[1]:
        return None
    if numbers and (math.isnan(left) or math.isnan(right)):
        return None
    return int(left > right) - int(left < right)


def is_comparable(value: Any) -> bool:
    """Whether values of its kind have an order."""
    return kind(value) in COMPARABLE


def _ordered(values: List) -> List:
    for value in values:
        if not is_comparable(value):
            raise NoSuchOverload
    return values


def is_sorted(values: List) -> bool:
    """Whether no element is greater than the next."""
    _ordered(values)
    return all(compare(one, other) != 1 for one, other in itertools.pairwise(values))


def _extreme(name: str, replaces: int) -> Callable[[List], Any]:
    def function(values: List) -> Any:
        if not values:
            raise CelError(f"{name} called on empty list")
        found = _ordered(values)[0]
        for value in values[1:]:
            if compare(found, value) == replaces:
                found = value
        return found

    return function


minimum = _extreme("min", 1)
maximum = _extreme("max", -1)


def _sum_of(type_name: str) -> Callable[[List], Any]:
    def function(values: List) -> Any:
        total = _ZEROS[type_name]
        for value in values:
            total = _add(total, value)
        return total

    return function


_ZEROS: dict[str, Any] = {
    "int": 0,
    "uint": Uint(0),
    "double": 0.0,
    "google.protobuf.Duration": Duration(0),
}


def _add(left: Any, right: Any) -> Any:
    """Sum of two values of one kind. Raises CelError where that overflows."""
    if kind(left) != kind(right):
        raise NoSuchOverload
    if isinstance(left, Duration):
        length = left.nanoseconds + right.nanoseconds
        return Duration(_within(length, INT_MIN, INT_MAX, "duration overflow"))
    if isinstance(left, Uint):
        return Uint(_within(int(left) + int(right), 0, UINT_MAX, "unsigned integer overflow"))
    if isinstance(left, float):
        return left + right
    return _within(left + right, INT_MIN, INT_MAX, "integer overflow")


def _within(number: int, least: int, most: int, message: str) -> int:
    if not least <= number <= most:
        raise CelError(message)
    return number


def same(left: Any, right: Any) -> bool:
    """CEL's `==`; what refuses to be compared is not equal."""
    try:
        return equal(left, right)
    except EvaluationError:
        return False


def index_of(values: List, wanted: Any) -> int:
    """Position of the first element that is equal, from 0, or -1."""
    return next((index for index, value in enumerate(values) if same(value, wanted)), -1)


def last_index_of(values: List, wanted: Any) -> int:
    """Position of the last element that is equal, from 0, or -1."""
    positions = range(len(values) - 1, -1, -1)
    return next((index for index in positions if same(values[index], wanted)), -1)


def _declared() -> tuple[Overload, ...]:
    """One overload per kind of element, as declared in the API server, first match first."""
    rows: list[Overload] = []
    for type_name in COMPARABLE:
        id, of = _ID_NAMES.get(type_name, type_name), f"list({type_name})"
        rows += [
            member(f"list_{id}_is_sorted_bool", "isSorted", (of, "bool"), is_sorted, costs.elements),
            member(f"list_{id}_max_{id}", "max", (of, type_name), maximum, costs.elements),
            member(f"list_{id}_min_{id}", "min", (of, type_name), minimum, costs.elements),
        ]
        if type_name in _ZEROS:
            add = _sum_of(type_name)
            rows.append(member(f"list_{id}_sum_{id}", "sum", (of, type_name), add, costs.elements))
    return tuple(rows)


OVERLOADS: tuple[Overload, ...] = (
    *_declared(),
    member("list_a_index_of_int", "indexOf", ("list(A)", "A", "int"), index_of, costs.elements),
    member("list_a_last_index_of_int", "lastIndexOf", ("list(A)", "A", "int"), last_index_of, costs.elements),
)
