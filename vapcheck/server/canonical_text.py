"""Values that the API server reads and writes again in a form of its own: quantities, times, bytes.

Pure functions of one value. A value that the server can't read gives None; `decoding` reports it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from vapcheck.cel import quantity as arithmetic
from vapcheck.cel.errors import EvaluationError
from vapcheck.cel.quantity import Quantity, compare, parse_quantity, rounded_up
from vapcheck.cel.times import SECOND, parse_timestamp, timestamp_text
from vapcheck.cel.values import Timestamp

_MILLI = -3
_TOO_FAR = 1000
"""Powers of ten that no quantity of an object has, which would take long to write out."""
_READABLE = frozenset({str, int, float})
_SPACE = " \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
"""Around quantities, what the server skips: white space to Go that JSON doesn't escape."""
_MICRO = re.compile(r"[.,]\d{6}(Z|[+-]\d\d:\d\d)$", re.ASCII)
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")


def quantity(value: Any) -> Any:
    """A quantity as the server writes it (1000m: "1", 1024Mi: "1Gi"; but 1.500 stays); apimachinery 0.36.
    Any other value is returned unchanged."""
    found = read_quantity(value)
    return value if found is None else found


def read_quantity(value: Any, milli: bool = False) -> str | None:
    """The same, None for a text that is not a quantity, has more than 100 characters or is beyond 10^1000.

    `milli` rounds up to thousandths, as the server does for resources of containers.
    """
    return _canonical(value, milli) if value.__class__ in _READABLE else None


@functools.lru_cache(maxsize=4096)
def _canonical(value: str | float, milli: bool) -> str | None:
    found = _parsed(value)
    return None if found is None else str(rounded_up(found, _MILLI) if milli else found)


def amount(value: Any) -> Fraction | None:
    """A quantity as a number; None for what is none."""
    found = _parsed(value) if value.__class__ in _READABLE else None
    return None if found is None else found.mantissa * Fraction(10) ** found.exponent


def quantity_text(value: Any) -> str | None:
    """The text that the server reads as a quantity; None for a value that it reads none from."""
    if isinstance(value, str):
        return value.strip(_SPACE)
    return _number_text(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _parsed(value: Any) -> Quantity | None:
    text = quantity_text(value)
    if text is None or len(text) > 100:
        return None
    try:
        found = parse_quantity(text)
    except EvaluationError:
        return None
    return found if abs(found.exponent) < _TOO_FAR else None


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
            total[key] = str(arithmetic.add(mine, other))
    return total


def larger(left: Mapping[str, str], right: Mapping[str, str]) -> dict[str, str]:
    """The larger quantity of each name."""
    found = dict(left)
    for key, value in right.items():
        mine, other = _parsed(found.get(key, "0")), _parsed(value)
        if key not in found or (mine is not None and other is not None and compare(other, mine) > 0):
            found[key] = value
    return found


def time(value: Any) -> str | None:
    """A point in time in UTC, in whole seconds."""
    return _time(value, "")


def micro_time(value: Any) -> str | None:
    """A point in time in UTC, in microseconds, which have to be written."""
    match = _MICRO.search(value) if isinstance(value, str) else None
    return _time(value, match[0][:7].replace(",", ".")) if match else None


def _time(value: Any, fraction: str) -> str | None:
    try:
        moment = parse_timestamp(value) if isinstance(value, str) else None
    except EvaluationError:
        return str(value)  # in a year that Python doesn't have
    if moment is None:
        return None
    return timestamp_text(Timestamp(moment.nanoseconds // SECOND * SECOND))[:-1] + f"{fraction}Z"


def base64_text(value: Any) -> str | None:
    """Base64 without the line breaks that Go's decoder skips."""
    if not isinstance(value, str):
        return None
    if "\n" in value or "\r" in value:
        value = value.replace("\n", "").replace("\r", "")
    return value if len(value) % 4 == 0 and _BASE64.fullmatch(value) else None
