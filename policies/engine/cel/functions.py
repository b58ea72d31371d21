"""Every function that an expression may call, by name: the one place that joins the libraries.

What a call costs is here too: cel-go's table by overload (interpreter/runtimecost.go, 0.26) for the standard
functions; the libraries price their own. Operators are planned elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import ceil
from typing import Any

from policies.engine.cel import conversions, strings
from policies.engine.cel.dispatch import dispatcher, unit
from policies.engine.cel.errors import NoSuchOverload
from policies.engine.cel.libraries import OVERLOADS
from policies.engine.cel.libraries.costs import matching, size
from policies.engine.cel.libraries.declaration import Cost, Overload
from policies.engine.cel.value_types import Optional

PER_CHARACTER = 0.1
"""Cost units of reading one character (cel-go common/cost.go)."""

_BY_NAME: dict[tuple[str, bool], list[Overload]] = {}
for _overload in (
    *conversions.CONVERSIONS,
    *conversions.TIME_READERS,
    *strings.STRINGS,
    *strings.SETS,
    *strings.OPTIONALS,
    *OVERLOADS,
):
    _BY_NAME.setdefault((_overload.function, _overload.member), []).append(_overload)

Function = Callable[[Sequence[Any]], tuple[Any, Cost]]
"""Takes all arguments, the receiver first; gives the result and what prices the call."""


def actual_size(value: Any) -> int:
    """What costs count as the size of a value: characters, bytes, elements or entries; 1 for all else."""
    if isinstance(value, Optional):
        return actual_size(value.value) if value.present else 1
    return size(value)


def _first_traversed(arguments: Sequence[Any], _result: Any) -> int:
    return ceil(size(arguments[0]) * PER_CHARACTER)


def _match_cost(arguments: Sequence[Any], _result: Any) -> int:
    return matching(size(arguments[0]), size(arguments[1]))


def _contains_cost(arguments: Sequence[Any], _result: Any) -> int:
    text, part = arguments
    return ceil(size(text) * PER_CHARACTER) * ceil(size(part) * PER_CHARACTER)


def _size_of(value: Any) -> int:
    if isinstance(value, (str, bytes, list, tuple, dict)):
        return len(value)
    raise NoSuchOverload("no such overload: size")


def _strings_only(call: Callable[[str, str], bool]) -> Callable[[Any, Any], bool]:
    def checked(text: Any, part: Any) -> bool:
        if type(text) is str and type(part) is str:
            return call(text, part)
        raise NoSuchOverload

    return checked


_UNGUARDED: dict[str, tuple[Callable[..., Any], Cost]] = {
    "size": (_size_of, unit),
    "contains": (_strings_only(lambda text, part: part in text), _contains_cost),
    "startsWith": (_strings_only(str.startswith), _first_traversed),
    "endsWith": (_strings_only(str.endswith), _first_traversed),
    "matches": (strings.matches, _match_cost),
}
"""Standard functions that report unfit arguments themselves."""
_GLOBAL_MATCHES = "matches"
"""The overload of `matches(a, b)`, which costs one unit only: cel-go prices `a.matches(b)` alone."""


def unguarded(name: str, overloads: Sequence[str]) -> tuple[Callable[..., Any], Cost] | None:
    """A standard function that takes any arguments, and its price; None for the others."""
    found = _UNGUARDED.get(name)
    if found is None or (name == "matches" and tuple(overloads) == (_GLOBAL_MATCHES,)):
        return found and (found[0], unit)
    return found


@lru_cache(maxsize=1024)
def function(name: str, member: bool) -> Function | None:
    """The function of that name, called on a receiver or not; None when there is none."""
    overloads = _BY_NAME.get((name, member))
    return dispatcher(name, overloads) if overloads else None
