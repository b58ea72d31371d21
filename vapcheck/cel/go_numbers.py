"""How Go prints doubles (%g, strconv), where Python prints them otherwise."""

from __future__ import annotations

import math


def double_g(value: float) -> str:
    """A double as Go's %g and %v: shortest digits, an exponent below 1e-4 and from 1e6 on."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    sign, digits, exponent = _shortest(value)
    if exponent < -4 or exponent >= 6:
        mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
        return f"{sign}{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    return sign + _placed(digits, exponent)


def double_f(value: float) -> str:
    """A double as strconv.FormatFloat(value, 'f', -1, 64): shortest digits, never an exponent."""
    if math.isnan(value) or math.isinf(value):
        return double_g(value)
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    sign, digits, exponent = _shortest(value)
    return sign + _placed(digits, exponent)


def _shortest(value: float) -> tuple[str, str, int]:
    """Sign, shortest digits and the exponent of the first digit."""
    text = repr(abs(value))
    mantissa, _, power = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    exponent = len(whole) - 1 + int(power or 0)
    if whole == "0":
        exponent = int(power or 0) - (len(fraction) - len(fraction.lstrip("0"))) - 1
    return "-" if value < 0 else "", digits.rstrip("0") or "0", exponent


def _placed(digits: str, exponent: int) -> str:
    if exponent < 0:
        return "0." + "0" * (-exponent - 1) + digits
    if len(digits) <= exponent + 1:
        return digits + "0" * (exponent + 1 - len(digits))
    return digits[: exponent + 1] + "." + digits[exponent + 1 :]
