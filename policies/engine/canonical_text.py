"""Values that the API server reads and writes again in a form of its own: quantities, times, bytes.

Pure functions of one value. What isn't well formed comes back as it was: refusing it is for the server.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

_QUANTITY = re.compile(
    r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:([KMGTPE]i)|([numkMGTPE]?)|[eE]([+-]?[0-9]{1,3}))", re.ASCII
)
_NANO = 10**9
_POWER = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SUFFIX = {power: suffix for suffix, power in _POWER.items()}
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)", re.ASCII)


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


@functools.lru_cache(maxsize=4096)
def quantity(value: Any, *, milli: bool = False) -> Any:
    """A quantity as the server writes it (1000m: "1", 1024Mi: "1Gi"; but 1.500 stays); apimachinery 0.36.

    `milli` rounds up to thousandths, as the server does for resources of containers.
    """
    parsed = _parsed(value)
    if parsed is None:
        return value
    nanos = parsed.nanos
    if milli and (parsed.scale is None or parsed.scale < -3):
        nanos = -(-nanos // 10**6) * 10**6
    elif parsed.kept:
        return parsed.kept
    return _signed(nanos, parsed.binary, parsed.exponent)


def _parsed(value: Any) -> _Quantity | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    text = value.strip() if isinstance(value, str) else _number_text(value)
    match = _QUANTITY.fullmatch(text)
    if match is None or not (match[2] or match[3]) or len(text) > 100:
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


def time(value: Any) -> Any:
    """A point in time in UTC, in whole seconds."""
    return _time(value, "")


def micro_time(value: Any) -> Any:
    """A point in time in UTC, in microseconds."""
    return _time(value, ".%f")


def _time(value: Any, fraction: str) -> Any:
    if not isinstance(value, str) or not (match := _TIME.fullmatch(value)):
        return value
    day, clock, parts, zone = match.groups()
    if zone == "Z" and not fraction and parts is None:
        return value
    try:
        moment = datetime.fromisoformat(
            f"{day}T{clock}.{(parts or '0')[:6]:0<6}{zone}".replace("Z", "+00:00")
        )
    except ValueError:
        return value
    return moment.astimezone(UTC).strftime(f"%Y-%m-%dT%H:%M:%S{fraction}Z")


def base64_text(value: Any) -> Any:
    """Base64 without the line breaks that Go's decoder skips."""
    if isinstance(value, str) and ("\n" in value or "\r" in value):
        return value.replace("\n", "").replace("\r", "")
    return value
