"""cel-go's list extension, version 3, which Kubernetes has since 1.34.

Facts: apiserver 0.36 pkg/cel/environment/base.go, cel-go 0.26 ext/lists.go. `sortBy` is a macro over
`@sortByAssociatedKeys`; macros are expanded elsewhere.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from vapcheck.cel.errors import CelError, NoSuchOverload
from vapcheck.cel.libraries import costs
from vapcheck.cel.libraries.declaration import Overload, free, member
from vapcheck.cel.libraries.lists import COMPARABLE, compare, is_comparable, same
from vapcheck.cel.values import kind

List = Sequence[Any]
MAX_RANGE = 1_000_000
"""A longer range could not pass the cost limit of one expression (apiserver 0.36 pkg/apis/cel/config.go)."""


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


def flatten(values: Any, depth: Any = None) -> list[Any]:
    """Lists in the list taken apart, `depth` (1) levels deep. Raises CelError for a negative depth."""
    if not isinstance(values, (list, tuple)):
        given = f"{kind(values)}.flatten({'' if depth is None else kind(depth)})"
        raise NoSuchOverload(f"no such overload: {given}")
    return _flat(values, 1 if depth is None else depth)


def _flat(values: List, depth: int) -> list[Any]:
    if depth < 0:
        raise CelError("level must be non-negative")
    flat: list[Any] = []
    for value in values:
        if isinstance(value, (list, tuple)) and depth:
            flat += _flat(value, depth - 1)
        else:
            flat.append(value)
    return flat


def sort_by_keys(values: List, keys: List) -> List:
    """`values` in the order of `keys`. Raises CelError for keys without order or of several kinds."""
    if not isinstance(values, (list, tuple)) or not isinstance(keys, (list, tuple)):
        raise NoSuchOverload
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

    def by_key(one: int, other: int) -> int:
        return compare(keys[one], keys[other]) or 0

    order = sorted(range(len(keys)), key=functools.cmp_to_key(by_key))
    return [values[index] for index in order]


def sort(values: List) -> List:
    """The elements in ascending order. Raises CelError as `sort_by_keys`."""
    return sort_by_keys(values, values)


def distinct(values: List) -> list[Any]:
    """The elements without those that equal an earlier one."""
    kept: list[Any] = []
    for value in values:
        if not any(same(value, other) for other in kept):
            kept.append(value)
    return kept


def numbers_up_to(count: int) -> list[int]:
    """0, 1, ... up to, not including, `count`. Raises CelError for a list beyond any cost limit."""
    if count > MAX_RANGE:
        raise CelError("operation cancelled: actual cost limit exceeded")
    return list(range(count))


def _declared() -> tuple[Overload, ...]:
    rows: list[Overload] = []
    for type_name in COMPARABLE:
        of = f"list({type_name})"
        rows += [
            member(f"list_{type_name}_sort", "sort", (of, of), sort, costs.all_pairs),
            member(
                f"list_{type_name}_sortByAssociatedKeys",
                "@sortByAssociatedKeys",
                ("list(T)", of, "list(T)"),
                sort_by_keys,
                costs.all_pairs,
            ),
        ]
    return tuple(replace(row, unguarded=True) for row in rows)


_LIST = "list(T)"
_FLATTEN = member("list_flatten", "flatten", ("list(list(T))", _LIST), flatten, costs.flattening)
_FLATTEN_TO_DEPTH = member(
    "list_flatten_int", "flatten", ("list(dyn)", "int", "list(dyn)"), flatten, costs.flattening
)
OVERLOADS: tuple[Overload, ...] = (
    member("list_slice", "slice", (_LIST, "int", "int", _LIST), slice_of, costs.result_size),
    replace(_FLATTEN, unguarded=True),
    replace(_FLATTEN_TO_DEPTH, unguarded=True),
    *_declared(),
    free("lists_range", "lists.range", ("int", "list(int)"), numbers_up_to, costs.result_size),
    member("list_reverse", "reverse", (_LIST, _LIST), lambda values: values[::-1], costs.result_size),
    member("list_distinct", "distinct", (_LIST, _LIST), distinct, costs.all_pairs),
)
