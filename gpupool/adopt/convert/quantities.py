"""Kubernetes' ways of writing amounts and times, as numbers and as gpupool writes them. Pure arithmetic."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from vapcheck import amount

_DURATION = re.compile(r"([0-9]{1,9})(h|m|s)")
_SECONDS = {"h": 3600, "m": 60, "s": 1}


def quantity(value: Any) -> Fraction | None:
    """A resource quantity, such as 32, "1k" or "512Gi", as a number; None if it is not one, or negative,
    which bounds nothing."""
    found = amount(value)
    return None if found is None or found < 0 else found


def seconds(value: Any) -> int | None:
    """A duration such as "1h30m" in seconds; None if it is not one. Durations are whole seconds here."""
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
