"""`'...'.format([...])` of the strings library below version 4, which prints doubles as in American English.

Facts: cel-go 0.26 ext/formatting.go; its doubles go through golang.org/x/text (1,234.50, and powers
of ten in superscript).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from vapcheck.cel import times
from vapcheck.cel.errors import CelError
from vapcheck.cel.values import Duration, Timestamp, TypeValue, Uint, from_key, kind
from vapcheck.go_text import double_g, quote

_CLAUSE = re.compile(r"(?:\.([0-9]*))?(.?)", re.DOTALL)
_SPELLED_DOUBLES = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_SUPERSCRIPTS = str.maketrans("0123456789-+", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺")
_PRECISION = 6
_MOST_DECIMALS = 1100
"""No double has more decimals that aren't zero."""


@dataclass(frozen=True, slots=True)
class Clause:
    """One `%.2f` of a format string."""

    letter: str
    precision: int


def parse(text: str) -> list[str | Clause | CelError]:
    """The format string as literal pieces and clauses; an error stands where parsing stops."""
    pieces: list[str | Clause | CelError] = []
    position = 0
    while position < len(text):
        following = text.find("%", position)
        if following < 0:
            pieces.append(text[position:])
            break
        if following > position:
            pieces.append(text[position:following])
        if text.startswith("%%", following):
            pieces.append("%")
            position = following + 2
            continue
        clause, position = _clause(text, following + 1)
        pieces.append(clause)
        if isinstance(clause, CelError):
            break
    return pieces


def _clause(text: str, start: int) -> tuple[Clause | CelError, int]:
    match = _CLAUSE.match(text, start)
    assert match is not None  # it matches the empty string
    problem = "could not parse formatting clause: "
    if start >= len(text):
        return CelError("unexpected end of string"), start
    if match[1] is not None:
        parsing = problem + "error while parsing precision: "
        if not match[2]:
            return CelError(parsing + "could not find end of precision specifier"), start
        if not match[1] or len(match[1]) > 18:
            reason = "value out of range" if match[1] else "invalid syntax"
            number = f'strconv.Atoi: parsing "{match[1]}": {reason}'
            return CelError(f"{parsing}error while converting precision to integer: {number}"), start
    if match[2] not in _CLAUSES:
        return CelError(f'{problem}unrecognized formatting clause "{match[2]}"'), start
    return Clause(match[2], _PRECISION if match[1] is None else int(match[1])), match.end()


def format_string(text: str, arguments: Sequence[Any]) -> str:
    """The text with its clauses filled in. Raises CelError with cel-go's words."""
    parts: list[str] = []
    index = 0
    for piece in parse(text):
        if isinstance(piece, str):
            parts.append(piece)
            continue
        if index >= len(arguments):
            raise CelError(f"index {index} out of range")
        if isinstance(piece, CelError):
            raise piece
        try:
            parts.append(_CLAUSES[piece.letter](arguments[index], piece.precision))
        except _Unfit as problem:
            raise CelError(f"error during formatting: {problem}") from None
        index += 1
    return "".join(parts)


class _Unfit(Exception):
    """A value that a clause can't print."""


PROBLEMS = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, "
    "durations, and timestamps, was given {}",
    "d": "decimal clause can only be used on integers, was given {}",
    "f": "fixed-point clause can only be used on doubles, was given {}",
    "e": "scientific clause can only be used on doubles, was given {}",
    "b": "only integers and bools can be formatted as binary, was given {}",
    "x": "only integers, byte buffers, and strings can be formatted as hex, was given {}",
    "o": "octal clause can only be used on integers, was given {}",
}
"""By clause; cel-go's texts."""


def _unfit(letter: str, value: Any) -> _Unfit:
    return _Unfit(PROBLEMS[letter].format(kind(value)))


def _string(value: Any, _precision: int) -> str:
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            problem = quote("invalid UTF-8 in bytes, cannot convert to string")
            raise _Unfit(f"could not convert argument {problem} to string") from None
    if isinstance(value, float):
        return double_g(value)
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, (Duration, Timestamp)):
        return times.text(value)
    if isinstance(value, TypeValue):
        return value.name
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_nested, value)) + "]"
    if isinstance(value, dict):
        entries = sorted((_nested_key(from_key(key)), _nested(entry)) for key, entry in value.items())
        return "{" + ", ".join(f"{key}:{entry}" for key, entry in entries) + "}"
    raise _unfit("s", value)


def _nested_key(key: Any) -> str:
    if not isinstance(key, (str, int)):
        raise _Unfit(f"no formatting function for map key of type {kind(key)}")
    return quote(key) if isinstance(key, str) else _string(key, 0)


def _nested(value: Any) -> str:
    """A value inside a list or map, as a CEL literal."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, bytes):
        return "b" + quote(_string(value, 0))
    if isinstance(value, float):
        return f"{value:.6f}" if math.isfinite(value) else f'"{double_g(value)}"'
    if isinstance(value, Duration):
        return f"duration({quote(times.text(value))})"
    if isinstance(value, Timestamp):
        return f"timestamp({quote(times.text(value))})"
    if value is not None and not isinstance(value, (bool, int, list, tuple, dict, TypeValue)):
        raise _Unfit(f"no formatting function for {kind(value)}")
    return _string(value, 0)


def _integer(letter: str, *kinds: type) -> Callable[[Any, int], str]:
    """The clause that prints integers as Python's format() does, and values of `kinds` too."""

    def clause(value: Any, _precision: int) -> str:
        if type(value) not in (int, Uint, *kinds):
            raise _unfit(letter, value)
        return format(int(value), letter)

    return clause


def _double(letter: str, value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is str and value in _SPELLED_DOUBLES:
        return _SPELLED_DOUBLES[value]
    raise _unfit(letter, value)


def _not_finite(number: float) -> str:
    return "NaN" if math.isnan(number) else ("∞" if number > 0 else "-∞")


def _fixed(value: Any, precision: int) -> str:
    number = _double("f", value)
    if not math.isfinite(number):
        return _not_finite(number)
    text = f"{number:,.{min(precision, _MOST_DECIMALS)}f}"
    return text + "0" * (precision - _MOST_DECIMALS) if precision > _MOST_DECIMALS else text


def _scientific(value: Any, precision: int) -> str:
    """The API server takes the precision for a width, and always prints six decimals."""
    number = _double("e", value)
    if not math.isfinite(number):
        return _not_finite(number).rjust(precision)
    mantissa, _, exponent = f"{number:.{_PRECISION}e}".partition("e")
    power = int(exponent)
    digits = f"{abs(power):02d}".translate(_SUPERSCRIPTS)
    return f"{mantissa}\u00d710{'⁻' if power < 0 else ''}{digits}".rjust(precision)


def _hexadecimal(value: Any, precision: int) -> str:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass").hex()
    if isinstance(value, bytes):
        return value.hex()
    return _integer("x")(value, precision)


_CLAUSES: dict[str, Callable[[Any, int], str]] = {
    "s": _string,
    "d": _integer("d"),
    "f": _fixed,
    "e": _scientific,
    "b": _integer("b", bool),
    "o": _integer("o"),
    "x": _hexadecimal,
    "X": lambda value, precision: _hexadecimal(value, precision).upper(),
}
