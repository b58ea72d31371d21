"""Values that the API server reads and writes again in a form of its own: quantities, times, bytes.

Pure functions of one value. A value that the server can't read gives None; `decoding` reports it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

_QUANTITY = re.compile(
    r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:([KMGTPE]i)|([numkMGTPE]?)|[eE]([+-]?[0-9]{1,3}))", re.ASCII
)
_NANO = 10**9
_POWER = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SUFFIX = {power: suffix for suffix, power in _POWER.items()}
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_READABLE = frozenset({str, int, float})
_SPACE = " \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
"""Around quantities, what the server skips: white space to Go that JSON doesn't escape."""
_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d?):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)
"""RFC 3339 as Go reads it."""
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")


@dataclass(frozen=True, slots=True)
class _Quantity:
    nanos: int
    """The value in 10^-9, rounded up."""
    binary: bool
    exponent: bool
    """How it is written: with Ki and so on, or with an exponent."""
    scale: int | None
    """The power of ten that its digits count, where the server keeps it as one 64 bit integer."""
    kept: str
    """The text as it was given, where the server writes it again as it is; else empty."""


def quantity(value: Any) -> Any:
    """A quantity as the server writes it (1000m: "1", 1024Mi: "1Gi"; but 1.500 stays); apimachinery 0.36.
    Any other value is returned unchanged."""
    found = read_quantity(value)
    return value if found is None else found


def read_quantity(value: Any, milli: bool = False) -> str | None:
    """The same, None for a text that is not a quantity or has more than 100 characters.

    `milli` rounds up to thousandths, as the server does for resources of containers.
    """
    return _canonical(value, milli) if value.__class__ in _READABLE else None


@functools.lru_cache(maxsize=4096)
def _canonical(value: str | float, milli: bool) -> str | None:
    parsed = _parsed(value)
    if parsed is None:
        return None
    nanos = parsed.nanos
    if milli and (parsed.scale is None or parsed.scale < -3):
        nanos = -(-nanos // 10**6) * 10**6
    elif parsed.kept:
        return parsed.kept
    return _signed(nanos, parsed.binary, parsed.exponent)


def amount(value: Any) -> Fraction | None:
    """A quantity as a number; None for what is none."""
    found = _parsed(value) if value.__class__ in _READABLE else None
    return None if found is None else Fraction(found.nanos, _NANO)


def quantity_text(value: Any) -> str | None:
    """The text that the server reads as a quantity; None for a value that it reads none from."""
    if isinstance(value, str):
        return value.strip(_SPACE)
    return _number_text(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _parsed(value: Any) -> _Quantity | None:
    text = quantity_text(value)
    if text is None or len(text) > 100:
        return None
    match = _QUANTITY.fullmatch(text)
    if match is None or not (match[2] or match[3]):
        return None
    sign, whole, fraction, binary, decimal, exponent = match.groups()
    number, fraction = whole.lstrip("0") or "0", fraction or ""
    digits = int(number + fraction)
    power = int(exponent) if exponent else _POWER.get(decimal or "", 0)
    index = _BINARY.index(binary) if binary else 0
    numerator = digits * _NANO * (1024**index if binary else 10 ** max(power, 0))
    nanos = -(-numerator // (10 ** len(fraction) * 10 ** max(-power, 0)))
    scale = None
    if binary:
        if not fraction and 14 - len(number) - index * 3 >= 0 and digits * 1024**index < 2**63:
            scale = 0
        kept = scale is not None and digits % 8 != 0
    else:
        if len(number + fraction) <= 18 and power - len(fraction) >= -9:
            scale = power - len(fraction)
        kept = (
            scale is not None and scale % 3 == 0 and number != "0" and not (number + fraction).endswith("000")
        )
    if text == "0":
        kept = True
    signed = -nanos if sign == "-" else nanos
    return _Quantity(signed, binary is not None, exponent is not None, scale, text if kept else "")


def _number_text(value: float) -> str:
    """A JSON number as Go writes it: without an exponent between 10^-6 and 10^21."""
    if isinstance(value, float) and (value == 0 or 1e-6 <= abs(value) < 1e21):
        return format(Decimal(repr(value)), "f")
    return repr(value)


def add(left: Mapping[str, str], right: Mapping[str, str]) -> dict[str, str]:
    """Lists of quantities added up by name; a sum is written as its first part is."""
    total = dict(left)
    for key, value in right.items():
        mine, other = _parsed(total.get(key, "0")), _parsed(value)
        if key not in total or mine is None or other is None:
            total[key] = value
        else:
            form = mine if mine.nanos else other
            total[key] = _signed(mine.nanos + other.nanos, form.binary, form.exponent)
    return total


def larger(left: Mapping[str, str], right: Mapping[str, str]) -> dict[str, str]:
    """The larger quantity of each name."""
    found = dict(left)
    for key, value in right.items():
        mine, other = _parsed(found.get(key, "0")), _parsed(value)
        if key not in found or (mine is not None and other is not None and other.nanos > mine.nanos):
            found[key] = value
    return found


def _signed(nanos: int, binary: bool, exponent: bool) -> str:
    if nanos == 0:
        return "0"
    return ("-" if nanos < 0 else "") + _written(abs(nanos), binary, exponent)


def _written(nanos: int, binary: bool, exponent: bool) -> str:
    if binary and nanos >= 1024 * _NANO and nanos % _NANO == 0:
        number, index = nanos // _NANO, 0
        while number % 1024 == 0 and index < len(_BINARY) - 1:
            number, index = number // 1024, index + 1
        return f"{number}{_BINARY[index]}"
    power = -9
    while nanos % 1000 == 0 and (exponent or power < 18):
        nanos, power = nanos // 1000, power + 3
    if exponent:
        return f"{nanos}e{power}" if power else str(nanos)
    return f"{nanos}{_SUFFIX[power]}"


def time(value: Any) -> str | None:
    """A point in time in UTC, in whole seconds."""
    return _time(value, micro=False)


def micro_time(value: Any) -> str | None:
    """A point in time in UTC, in microseconds, which have to be written."""
    return _time(value, micro=True)


def _time(value: Any, *, micro: bool) -> str | None:
    if not isinstance(value, str) or not (match := _TIME.fullmatch(value)):
        return None
    parts, sign = match[7] or "", match[8]
    if micro and len(parts) != 6:
        return None
    year, month, day, hour, minute, second, ahead, more = (int(match[n] or 0) for n in (*range(1, 7), 9, 10))
    if ahead > 24 or more > 60:
        return None
    try:  # Go's calendar begins with the year 0, a leap year
        moment = datetime(year or 4, month, day, hour, minute, second)
    except ValueError:
        return None
    offset = timedelta(hours=ahead, minutes=more)
    try:
        moment = (moment.replace(year=year) - offset) if sign == "+" else (moment.replace(year=year) + offset)
    except (ValueError, OverflowError):
        return value  # in a year that Python doesn't have
    return f"{moment.isoformat()}{f'.{parts}' if micro else ''}Z"


def base64_text(value: Any) -> str | None:
    """Base64 without the line breaks that Go's decoder skips."""
    if not isinstance(value, str):
        return None
    if "\n" in value or "\r" in value:
        value = value.replace("\n", "").replace("\r", "")
    return value if len(value) % 4 == 0 and _BASE64.fullmatch(value) else None
