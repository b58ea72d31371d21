"""Kubernetes' ways of writing amounts and times, as numbers and as gpupool writes them. Pure arithmetic."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

_QUANTITY = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,9}))?(|[munkMGTPE]|[KMGTPE]i|[eE][0-9]{1,2})")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DURATION = re.compile(r"([0-9]{1,9})(h|m|s)")
_SECONDS = {"h": 3600, "m": 60, "s": 1}


def quantity(value: Any) -> Fraction | None:
    """A resource quantity, such as 32, "1k" or "512Gi", as a number; None where it is none
    (apimachinery, pkg/api/resource). Negative amounts bound nothing and are none."""
    if isinstance(value, bool) or not isinstance(value, int | str | float):
        return None
    match = _QUANTITY.fullmatch(str(value))
    if match is None:
        return None
    whole, fraction, unit = match[1], match[2] or "", match[3]
    number = Fraction(int(whole + fraction), 10 ** len(fraction))
    if unit in _BINARY:
        return number * Fraction(1024 ** _BINARY[unit])
    power = int(unit[1:]) if unit[:1] in ("e", "E") and unit[1:] else _DECIMAL[unit]
    return number * Fraction(10) ** power


def seconds(value: Any) -> int | None:
    """A duration such as "1h30m" in seconds; None where it is none. Durations are whole seconds here."""
    if not isinstance(value, str) or not value:
        return None
    if re.fullmatch(r"(?:[0-9]{1,9}(?:h|m|s))+", value) is None:
        return None
    return sum(int(number) * _SECONDS[unit] for number, unit in _DURATION.findall(value))


def duration(total: int) -> str:
    """So many seconds as gpupool writes them: `90s`, `10m`, `720h`, `1h30m`."""
    hours, rest = divmod(total, 3600)
    minutes, left = divmod(rest, 60)
    parts = [f"{count}{unit}" for count, unit in ((hours, "h"), (minutes, "m"), (left, "s")) if count]
    return "".join(parts) or "0s"


def duration_or_never(value: Any) -> str | None:
    """A duration as it is written, or Never; None where it is neither."""
    return value if value == "Never" or seconds(value) is not None else None
