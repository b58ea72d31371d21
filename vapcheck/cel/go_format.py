"""How Go prints values in texts and messages (%v, %g, strconv), where Python prints them otherwise."""

from __future__ import annotations

import math
from typing import Any

from vapcheck.cel.values import BoolKey, Duration, Optional, Timestamp, TypeValue, Uint, kind


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


_NATIVE_NAMES = {
    "string": "types.String",
    "int": "types.Int",
    "uint": "types.Uint",
    "double": "types.Double",
    "bool": "types.Bool",
    "bytes": "types.Bytes",
    "null_type": "types.Null",
    "google.protobuf.Duration": "types.Duration",
    "google.protobuf.Timestamp": "types.Timestamp",
    "optional_type": "*types.Optional",
    "type": "*types.Type",
}


def native_name(value: Any) -> str:
    """The name of the class that holds a value in cel-go, which some messages show."""
    name = kind(value)
    return _NATIVE_NAMES.get(name, f"*{name}")


def verb_v(value: Any) -> str:
    """A CEL value as Go's %v prints it in error texts."""
    if value is None:
        return "NULL_VALUE"
    if isinstance(value, BoolKey):
        return verb_v(value.value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return double_g(value)
    if isinstance(value, (int, Uint)):
        return str(int(value))
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return "[" + " ".join(map(str, value)) + "]"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(verb_v, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{verb_v(key)}: {verb_v(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, Optional):
        return f"optional({verb_v(value.value)})" if value.present else "optional.none()"
    if isinstance(value, TypeValue):
        return value.name
    if isinstance(value, (Duration, Timestamp)):
        from vapcheck.cel.times import text

        return text(value)
    return str(value)
