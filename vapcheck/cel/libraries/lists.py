"""The list functions of Kubernetes (isSorted, sum, min, max, indexOf) and cel-go's list extension, version 3.

Facts: apiserver 0.36 pkg/cel/library/lists.go and pkg/cel/environment/base.go, cel-go 0.26 ext/lists.go. All
overloads of min, max and isSorted share one function. It takes mixed lists (from objects of unknown type) as
the API server does: what has no order counts as equal. `sortBy` is a macro over `@sortByAssociatedKeys`;
macros are expanded elsewhere.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from vapcheck.cel import operators
from vapcheck.cel.errors import CelError, NoSuchOverload
from vapcheck.cel.libraries import costs
from vapcheck.cel.libraries.declaration import Overload, free, member
from vapcheck.cel.values import Duration, Uint, equal, kind

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
_ID_NAMES = {"google.protobuf.Duration": "duration", "google.protobuf.Timestamp": "timestamp"}
_ZEROS: dict[str, Any] = {"int": 0, "uint": Uint(0), "double": 0.0, "google.protobuf.Duration": Duration(0)}
"""By the kinds that have a sum, that of nothing."""
MAX_RANGE = 1_000_000
"""A longer range could not pass the cost limit of one expression (apiserver 0.36 pkg/apis/cel/config.go)."""
List = Sequence[Any]


def _order(left: Any, right: Any) -> int:
    """-1, 0 or 1; values of different kinds and NaN, which have no order, count as equal."""
    try:
        return operators.compare(left, right, "")
    except CelError:
        return 0


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
    return all(_order(one, other) != 1 for one, other in itertools.pairwise(values))


def _extreme(name: str, replaces: int) -> Callable[[List], Any]:
    def function(values: List) -> Any:
        if not values:
            raise CelError(f"{name} called on empty list")
        found = _ordered(values)[0]
        for value in values[1:]:
            if _order(found, value) == replaces:
                found = value
        return found

    return function


minimum = _extreme("min", 1)
maximum = _extreme("max", -1)


def _total(zero: Any, values: List) -> Any:
    """The sum. Raises CelError for elements of several kinds, and where it overflows."""
    return functools.reduce(operators.add, values, zero)


def _same(left: Any, right: Any) -> bool:
    """CEL's `==`; what refuses to be compared is not equal."""
    try:
        return equal(left, right)
    except NoSuchOverload:
        return False


def index_of(values: List, wanted: Any) -> int:
    """Position of the first element that is equal, from 0, or -1."""
    return next((index for index, value in enumerate(values) if _same(value, wanted)), -1)


def last_index_of(values: List, wanted: Any) -> int:
    """Position of the last element that is equal, from 0, or -1."""
    positions = range(len(values) - 1, -1, -1)
    return next((index for index in positions if _same(values[index], wanted)), -1)


def slice_of(values: List, start: int, end: int) -> List:
    """Elements from `start` up to, not including, `end`. Raises CelError for positions outside."""
    call = f"cannot slice({start}, {end})"
    if start < 0 or end < 0:
        raise CelError(f"{call}, negative indexes not supported")
    if start > end:
        raise CelError(f"{call}, start index must be less than or equal to end index")
    if end > len(values):
        raise CelError(f"{call}, list is length {len(values)}")
    return values[start:end]


def flatten(values: List, depth: int = 1) -> list[Any]:
    """Lists in the list taken apart, `depth` levels deep. Raises CelError for a negative depth."""
    if depth < 0:
        raise CelError("level must be non-negative")
    flat: list[Any] = []
    for value in values:
        if isinstance(value, (list, tuple)) and depth:
            flat += flatten(value, depth - 1)
        else:
            flat.append(value)
    return flat


def sort_by_keys(values: List, keys: List) -> List:
    """`values` in the order of `keys`. Raises CelError for keys without order or of several kinds."""
    if len(values) != len(keys):
        raise CelError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, "
            f"but got {len(values)} and {len(keys)} elements respectively"
        )
    if not values:
        return values
    if not is_comparable(keys[0]):
        raise CelError("list elements must be comparable")
    if any(kind(key) != kind(keys[0]) for key in keys):
        raise CelError("list elements must have the same type")

    by_key = functools.cmp_to_key(_order)
    order = sorted(range(len(keys)), key=lambda index: by_key(keys[index]))
    return [values[index] for index in order]


def sort(values: List) -> List:
    """The elements in ascending order. Raises CelError as `sort_by_keys`."""
    return sort_by_keys(values, values)


def distinct(values: List) -> list[Any]:
    """The elements without those that equal an earlier one."""
    kept: list[Any] = []
    for value in values:
        if not any(_same(value, other) for other in kept):
            kept.append(value)
    return kept


def numbers_up_to(count: int) -> list[int]:
    """0, 1, ... up to, not including, `count`. Raises CelError for a list beyond any cost limit."""
    if count > MAX_RANGE:
        raise CelError("operation cancelled: actual cost limit exceeded")
    return list(range(count))


def _declared() -> Iterator[Overload]:
    """Of Kubernetes' own library: one overload per kind of element, as declared in the API server, first
    match first."""
    for type_name in COMPARABLE:
        id, of = _ID_NAMES.get(type_name, type_name), f"list({type_name})"
        yield member(f"list_{id}_is_sorted_bool", "isSorted", (of, "bool"), is_sorted, costs.elements)
        yield member(f"list_{id}_max_{id}", "max", (of, type_name), maximum, costs.elements)
        yield member(f"list_{id}_min_{id}", "min", (of, type_name), minimum, costs.elements)
        if type_name in _ZEROS:
            total = functools.partial(_total, _ZEROS[type_name])
            yield member(f"list_{id}_sum_{id}", "sum", (of, type_name), total, costs.elements)


def _sorting() -> Iterator[Overload]:
    """The same of cel-go's library."""
    for type_name in COMPARABLE:
        of = f"list({type_name})"
        yield member(f"list_{type_name}_sort", "sort", (of, of), sort, costs.all_pairs)
        by_keys, signature = f"list_{type_name}_sortByAssociatedKeys", ("list(T)", of, "list(T)")
        yield member(by_keys, "@sortByAssociatedKeys", signature, sort_by_keys, costs.all_pairs)


_LIST, _DYN = "list(T)", "list(dyn)"
OVERLOADS: tuple[Overload, ...] = (
    *_declared(),
    member("list_a_index_of_int", "indexOf", ("list(A)", "A", "int"), index_of, costs.elements),
    member("list_a_last_index_of_int", "lastIndexOf", ("list(A)", "A", "int"), last_index_of, costs.elements),
)
EXTENSION: tuple[Overload, ...] = (
    *_sorting(),
    member("list_slice", "slice", (_LIST, "int", "int", _LIST), slice_of, costs.result_size),
    member("list_flatten", "flatten", ("list(list(T))", _LIST), flatten, costs.flattening),
    member("list_flatten_int", "flatten", (_DYN, "int", _DYN), flatten, costs.flattening),
    free("lists_range", "lists.range", ("int", "list(int)"), numbers_up_to, costs.result_size),
    member("list_reverse", "reverse", (_LIST, _LIST), lambda values: values[::-1], costs.result_size),
    member("list_distinct", "distinct", (_LIST, _LIST), distinct, costs.all_pairs),
)
