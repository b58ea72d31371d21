"""Every function that an expression may call, by name: the one place that joins the libraries.

What a call costs is here too: cel-go's table by overload (interpreter/runtimecost.go, 0.26) for the
standard functions; the libraries price their own. Operators are planned elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from vapcheck.cel import conversions, strings
from vapcheck.cel.dispatch import Chosen, dispatcher
from vapcheck.cel.errors import NoSuchOverload
from vapcheck.cel.libraries import OVERLOADS, costs
from vapcheck.cel.libraries.declaration import Cost, Overload, unit
from vapcheck.cel.operators import RECEIVERS
from vapcheck.cel.values import kind

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

Function = Callable[[Sequence[Any]], Chosen]
"""Takes all arguments, the receiver first; gives what to call with them and what prices the call."""
PATTERN_FUNCTIONS = frozenset(("matches", "find", "findAll"))
"""Functions whose constant pattern is compiled with the expression."""
_PRICED_BY_OVERLOAD = frozenset(
    ("sort", "@sortByAssociatedKeys", "slice", "flatten", "lists.range", "reverse", "distinct")
)
"""Functions that cost one unit where the checker can't determine the overload (cel-go ext/lists.go)."""


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
    "contains": (_strings_only(lambda text, part: part in text), costs.contains_text),
    "startsWith": (_strings_only(str.startswith), costs.first),
    "endsWith": (_strings_only(str.endswith), costs.first),
    "matches": (strings.matches, costs.pattern),
}
"""Standard functions that report unfit arguments themselves."""
_GLOBAL_MATCHES = "matches"
"""The overload of `matches(a, b)`, which costs one unit only: cel-go prices `a.matches(b)` alone."""

FRAGILE = frozenset(("distinct", "sort", "@sortByAssociatedKeys"))
"""Functions that stop the API server's evaluation when they are called on an error or on a value that is not
a list."""
_UNCHECKED = frozenset(("flatten", "sort", "@sortByAssociatedKeys"))
"""Functions that check the kinds of their arguments themselves."""


def unguarded(name: str, references: tuple[str, ...], compiled_pattern: bool = False) -> Chosen | None:
    """A standard function that takes any arguments, with its price; None for the others."""
    free = _UNGUARDED.get(name)
    if free is None or name != "matches":
        return free
    price = unit if references == (_GLOBAL_MATCHES,) else free[1]
    return (strings.matches_compiled if compiled_pattern else free[0]), price


def _refuse(name: str) -> Callable[..., Any]:
    def refused(*arguments: Any) -> Any:
        kinds = [kind(argument) for argument in arguments]
        if name == "flatten":
            raise NoSuchOverload(f"no such overload: {kinds[0]}.{name}({', '.join(kinds[1:])})")
        raise (
            NoSuchOverload()
            if isinstance(arguments[0], RECEIVERS)
            else NoSuchOverload(f"no such overload: {name}")
        )

    return refused


@lru_cache(maxsize=1024)
def function(
    name: str, member: bool, references: tuple[str, ...], compiled_pattern: bool = False
) -> Function | None:
    """The function of that name, called on a receiver or not; None when there is none.

    `references`: the overloads that the checker thinks possible, because some prices depend on their number.
    `compiled_pattern`: the pattern is a constant, which changes the words of an error.
    """
    free = unguarded(name, references, compiled_pattern)
    if free is not None:
        return lambda _arguments: free
    overloads = _BY_NAME.get((name, member))
    if not overloads:
        return None
    if compiled_pattern:
        return dispatcher("", overloads)
    if name in _UNCHECKED:
        price = overloads[0].cost if len(references) == 1 else unit
        only, refused = (overloads[0].call, price), (_refuse(name), price if name == "flatten" else unit)
        return lambda arguments: only if isinstance(arguments[0], (list, tuple)) else refused
    meant = [overload for overload in overloads if references == (overload.id,)]
    choose = dispatcher(name, meant or overloads)
    if name in _PRICED_BY_OVERLOAD and len(references) != 1:
        return lambda arguments: (choose(arguments)[0], unit)
    return choose
