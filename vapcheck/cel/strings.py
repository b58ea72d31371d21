"""The strings library in version 2, the sets library, and the functions of optional values.

Facts: cel-go 0.26 ext/strings.go, ext/sets.go, cel/library.go. Positions count code points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from vapcheck.cel.errors import CelError, CostExceeded, NoSuchOverload
from vapcheck.cel.formatting import format_string
from vapcheck.cel.go_format import verb_v
from vapcheck.cel.libraries import costs
from vapcheck.cel.libraries.declaration import Cost, Overload, free, member, unit
from vapcheck.cel.libraries.patterns import search
from vapcheck.cel.operators import contained
from vapcheck.cel.values import NONE, Duration, Optional, Timestamp, some
from vapcheck.go_text import ESCAPES

_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_SPACES = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029"
)
_SPACES += "\u202f\u205f\u3000"
"""What Go's unicode.IsSpace holds for white space."""


_LONGEST = 10_000_000
"""Characters of a text that reading once costs more than one expression may cost (10 characters a unit)."""


def _affordable(length: int) -> None:
    """Raises CostExceeded for a text that must not be built: its cost is that of its inputs, and
    two texts of 200 kB can be made one of 40 GB."""
    if length > _LONGEST:
        raise CostExceeded


def _out_of_range(index: int) -> CelError:
    return CelError(f"index out of range: {index}")


def char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def index_of(text: str, part: str, offset: int = 0) -> int:
    if not part:
        return offset
    if offset < 0:
        raise _out_of_range(offset)
    return -1 if offset >= len(text) else text.find(part, offset)


def last_index_of(text: str, part: str, offset: int | None = None) -> int:
    if offset is None:
        if not part:
            return len(text)
        return text.rfind(part)
    if not part:
        return offset
    if offset < 0:
        raise _out_of_range(offset)
    return -1 if offset >= len(text) else text.rfind(part, 0, offset + len(part))


def replace(text: str, old: str, new: str, count: int = -1) -> str:
    if len(new) > len(old):
        found = text.count(old) if count < 0 else min(count, text.count(old))
        _affordable(len(text) + found * (len(new) - len(old)))
    return text.replace(old, new, count if count >= 0 else -1) if count else text


def split(text: str, separator: str, count: int = -1) -> list[str]:
    if count == 0:
        return []
    if not separator:
        pieces = list(text)
        return (
            pieces
            if count < 0 or len(pieces) <= count
            else [*pieces[: count - 1], "".join(pieces[count - 1 :])]
        )
    return text.split(separator, count - 1 if count > 0 else -1)


def substring(text: str, start: int, end: int | None = None) -> str:
    if end is None:
        if not 0 <= start <= len(text):
            raise _out_of_range(start)
        return text[start:]
    if start > end:
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    for position in (start, end):
        if not 0 <= position <= len(text):
            raise _out_of_range(position)
    return text[start:end]


def join(parts: Sequence[Any], separator: str = "") -> str:
    for part in parts:
        if type(part) is not str:
            raise CelError(f"join: invalid input: {verb_v(part)}")
    _affordable(sum(map(len, parts)) + len(separator) * len(parts))
    return separator.join(parts)


def quote(text: str) -> str:
    return '"' + "".join(ESCAPES.get(char, char) for char in text) + '"'


def _subset(whole: Sequence[Any], part: Sequence[Any]) -> bool:
    return all(contained(element, whole) for element in part)


def _pairs(factor: int) -> Cost:
    return lambda arguments, _result: 1 + costs.size(arguments[0]) * costs.size(arguments[1]) * factor


def of_non_zero(value: Any) -> Optional:
    """optional.ofNonZeroValue: null, false, 0, "", empty collections and the zero times give none."""
    if isinstance(value, Timestamp):
        return some(value)
    zero = value is None or value == Duration(0) or (not value and not isinstance(value, Optional))
    return NONE if zero and not (isinstance(value, float) and math.isnan(value)) else some(value)


def optional_value(value: Optional) -> Any:
    if not value.present:
        raise CelError("optional.none() dereference")
    return value.value


def unwrap(values: Sequence[Any]) -> list[Any]:
    for value in values:
        if not isinstance(value, Optional):
            raise CelError(f"value {verb_v(value)} is not optional")
    return [value.value for value in values if value.present]


def matches(text: Any, pattern: Any) -> bool:
    """`matches`; a receiver or pattern that is not a string has no overload."""
    if type(text) is not str:
        raise NoSuchOverload("no such overload: matches")
    if type(pattern) is not str:
        raise NoSuchOverload
    return search(text, pattern)


def matches_compiled(text: Any, pattern: str) -> bool:
    """`matches` with a constant pattern."""
    if type(text) is not str:
        raise NoSuchOverload
    return search(text, pattern)


_PRICES = costs.STRING_COSTS


def _text(id: str, function: str, *signature: str, call: Any, cost: Cost | None = None) -> Overload:
    return member(id, function, ("string", *signature), call, cost or _PRICES.get(function, unit))


STRINGS: tuple[Overload, ...] = (
    _text("string_char_at_int", "charAt", "int", "string", call=char_at),
    _text("string_index_of_string", "indexOf", "string", "int", call=index_of),
    _text("string_index_of_string_int", "indexOf", "string", "int", "int", call=index_of),
    _text("string_last_index_of_string", "lastIndexOf", "string", "int", call=last_index_of),
    _text("string_last_index_of_string_int", "lastIndexOf", "string", "int", "int", call=last_index_of),
    _text("string_lower_ascii", "lowerAscii", "string", call=lambda text: text.translate(_LOWER)),
    _text("string_upper_ascii", "upperAscii", "string", call=lambda text: text.translate(_UPPER)),
    _text("string_replace_string_string", "replace", "string", "string", "string", call=replace),
    _text("string_replace_string_string_int", "replace", "string", "string", "int", "string", call=replace),
    _text("string_split_string", "split", "string", "list(string)", call=split),
    _text("string_split_string_int", "split", "string", "int", "list(string)", call=split),
    _text("string_substring_int", "substring", "int", "string", call=substring),
    _text("string_substring_int_int", "substring", "int", "int", "string", call=substring),
    _text("string_trim", "trim", "string", call=lambda text: text.strip(_SPACES)),
    _text("string_format", "format", "list(dyn)", "string", call=format_string, cost=costs.first),
    free("strings_quote", "strings.quote", ("string", "string"), quote, costs.first),
    member("list_join", "join", ("list(string)", "string"), join, _PRICES["join"]),
    member("list_join_string", "join", ("list(string)", "string", "string"), join, _PRICES["join"]),
)
SETS: tuple[Overload, ...] = (
    free("list_sets_contains_list", "sets.contains", ("list(T)", "list(T)", "bool"), _subset, _pairs(1)),
    free(
        "list_sets_equivalent_list",
        "sets.equivalent",
        ("list(T)", "list(T)", "bool"),
        lambda one, other: _subset(one, other) and _subset(other, one),
        _pairs(2),
    ),
    free(
        "list_sets_intersects_list",
        "sets.intersects",
        ("list(T)", "list(T)", "bool"),
        lambda one, other: any(contained(element, other) for element in one),
        _pairs(1),
    ),
)
_OPTIONAL, _OPTIONALS = "optional_type(V)", "list(optional_type(V))"
OPTIONALS: tuple[Overload, ...] = (
    free("optional_of", "optional.of", ("V", _OPTIONAL), some),
    free("optional_ofNonZeroValue", "optional.ofNonZeroValue", ("V", _OPTIONAL), of_non_zero),
    free("optional_none", "optional.none", (_OPTIONAL,), lambda: NONE),
    member("optional_value", "value", (_OPTIONAL, "V"), optional_value),
    member("optional_hasValue", "hasValue", (_OPTIONAL, "bool"), lambda value: value.present),
    member("list_first", "first", ("list(V)", _OPTIONAL), lambda values: some(values[0]) if values else NONE),
    member("list_last", "last", ("list(V)", _OPTIONAL), lambda values: some(values[-1]) if values else NONE),
    free("optional_unwrap", "optional.unwrap", (_OPTIONALS, "list(V)"), unwrap),
    member("optional_unwrapOpt", "unwrapOpt", (_OPTIONALS, "list(V)"), unwrap),
)
