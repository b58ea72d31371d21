"""Values that the API server reads and writes again in a form of its own: quantities, times, bytes.

Pure functions of one value. What isn't well formed comes back as it was: refusing it is for the server.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

_QUANTITY = re.compile(
    r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:([KMGTPE]i)|([numkMGTPE]?)|[eE]([+-]?[0-9]{1,3}))", re.ASCII
)
_NANO = 10**9
_POWER = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SUFFIX = {power: suffix for suffix, power in _POWER.items()}
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)", re.ASCII)


@functools.lru_cache(maxsize=4096)
def quantity(value: Any, *, milli: bool = False) -> Any:
    """The canonical form of a quantity (1000m: "1", 1024Mi: "1Gi"); as apimachinery 0.36 writes it.

    `milli` rounds up to thousandths, as the server does for resources of containers.
    """
    parsed = _parsed(value)
    if parsed is None:
        return value
    nanos, binary, exponent = parsed
    if milli:
        nanos = -(-nanos // 10**6) * 10**6
    return _signed(nanos, binary, exponent)


def _parsed(value: Any) -> tuple[int, bool, bool] | None:
    """A quantity in 10^-9, rounded up, whether it is written with Ki etc., and whether with an exponent."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    match = _QUANTITY.fullmatch(value if isinstance(value, str) else repr(value))
    if match is None or not (match[2] or match[3]):
        return None
    sign, whole, fraction, binary, decimal, exponent = match.groups()
    if len(whole) + len(fraction or "") > 100:
        return None
    digits = int((whole + (fraction or "")) or "0")
    power = int(exponent) if exponent else _POWER.get(decimal or "", 0)
    numerator = digits * _NANO * (1024 ** _BINARY.index(binary) if binary else 10 ** max(power, 0))
    nanos = -(-numerator // (10 ** len(fraction or "") * 10 ** max(-power, 0)))
    return (-nanos if sign == "-" else nanos), binary is not None, exponent is not None


def add(left: Mapping[str, str], right: Mapping[str, str]) -> dict[str, str]:
    """Lists of quantities added up by name; a sum is written as its first part is."""
    total = dict(left)
    for key, value in right.items():
        mine, other = _parsed(total.get(key, "0")), _parsed(value)
        if key not in total or mine is None or other is None:
            total[key] = value
        else:
            form = mine if mine[0] else other
            total[key] = _signed(mine[0] + other[0], form[1], form[2])
    return total


def larger(left: Mapping[str, str], right: Mapping[str, str]) -> dict[str, str]:
    """The larger quantity of each name."""
    found = dict(left)
    for key, value in right.items():
        mine, other = _parsed(found.get(key, "0")), _parsed(value)
        if key not in found or (mine is not None and other is not None and other[0] > mine[0]):
            found[key] = value
    return found


def _signed(nanos: int, binary: bool, exponent: bool) -> str:
    if nanos == 0:
        return "0"
    return ("-" if nanos < 0 else "") + _written(abs(nanos), binary, exponent)


def _written(nanos: int, binary: bool, exponent: bool) -> str:
    if binary and nanos >= 1024 * _NANO:
        number, index = -(-nanos // _NANO), 0
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
