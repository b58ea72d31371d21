"""int(), string(), duration() and the other conversions, type(), and reading the parts of times.

Facts: cel-go 0.26 common/stdlib/standard.go and common/types; strconv for what counts as a number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from vapcheck.cel import times
from vapcheck.cel.errors import CelError
from vapcheck.cel.libraries import costs
from vapcheck.cel.libraries.declaration import Cost, Overload, free, member, unit
from vapcheck.cel.operators import checked_uint
from vapcheck.cel.values import INT_MAX, INT_MIN, UINT_MAX, Duration, Timestamp, TypeValue, Uint, kind
from vapcheck.go_text import double_g

_SPELLED_BOOLS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_HEXADECIMAL = re.compile(r"[+-]?0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?\d+")
_SPECIAL = re.compile(r"[+-]?(inf(inity)?|nan)", re.IGNORECASE)


def _unconvertible(source: str, target: str) -> CelError:
    return CelError(f"type conversion error from '{source}' to '{target}'")


def int_of_double(value: float) -> int:
    if math.isnan(value) or not -(2.0**63) < value < 2.0**63:
        raise CelError("integer overflow")
    return int(value)


def int_of_string(value: str) -> int:
    if re.fullmatch(r"[+-]?[0-9]+", value) and INT_MIN <= int(value[:64]) <= INT_MAX and len(value) <= 64:
        return int(value)
    raise _unconvertible("string", "int")


def int_of_uint(value: Uint) -> int:
    if value > INT_MAX:
        raise CelError("integer overflow")
    return int(value)


def uint_of_double(value: float) -> Uint:
    return checked_uint(math.floor(value) if math.isfinite(value) else -1)


def uint_of_string(value: str) -> Uint:
    if re.fullmatch(r"[0-9]+", value) and len(value) <= 64 and int(value) <= UINT_MAX:
        return Uint(int(value))
    raise _unconvertible("string", "uint")


def double_of_string(value: str) -> float:
    plain = value
    if _DECIMAL.fullmatch(plain):
        number = float(plain)
        if math.isinf(number):
            raise _unconvertible("string", "double")
        return number
    if _HEXADECIMAL.fullmatch(plain):
        try:
            return float.fromhex(plain)
        except OverflowError:
            raise _unconvertible("string", "double") from None
    if _SPECIAL.fullmatch(plain) and not (plain[0] in "+-" and plain[1:].lower() == "nan"):
        return float(plain)
    raise _unconvertible("string", "double")


def bool_of_string(value: str) -> bool:
    if value in _SPELLED_BOOLS:
        return _SPELLED_BOOLS[value]
    raise _unconvertible("string", "bool")


def string_of_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None


def duration_of_string(value: str) -> Duration:
    duration = times.parse_duration(value)
    if duration is None:
        raise _unconvertible("string", "google.protobuf.Duration")
    return duration


def timestamp_of_string(value: str) -> Timestamp:
    timestamp = times.parse_timestamp(value)
    if timestamp is None:
        raise _unconvertible("string", "google.protobuf.Timestamp")
    return timestamp


def duration_of_int(_value: int) -> Duration:
    raise _unconvertible("int", "google.protobuf.Duration")


def _same(value: Any) -> Any:
    return value


def _string_of_bool(value: bool) -> str:
    return "true" if value else "false"


def _convert(function: str, source: str, call: Callable[[Any], Any], cost: Cost = unit) -> Overload:
    name = {"int": "int64", "uint": "uint64"}
    overload = f"{name.get(source, source)}_to_{name.get(function, function)}"
    return free(overload, function, (source, function), call, cost)


CONVERSIONS: tuple[Overload, ...] = (
    _convert("bool", "bool", _same),
    _convert("bool", "string", bool_of_string),
    _convert("bytes", "bytes", _same),
    _convert("bytes", "string", lambda value: value.encode("utf-8", "surrogatepass"), costs.first),
    _convert("double", "double", _same),
    _convert("double", "int", float),
    _convert("double", "string", double_of_string),
    _convert("double", "uint", float),
    _convert("duration", "duration", _same),
    _convert("duration", "int", duration_of_int),
    _convert("duration", "string", duration_of_string),
    free("to_dyn", "dyn", ("dyn", "dyn"), _same),
    _convert("int", "int", _same),
    _convert("int", "double", int_of_double),
    _convert("int", "duration", lambda value: value.nanoseconds),
    _convert("int", "string", int_of_string),
    _convert("int", "timestamp", lambda value: value.nanoseconds // times.SECOND),
    _convert("int", "uint", int_of_uint),
    _convert("string", "string", _same),
    _convert("string", "bool", _string_of_bool),
    _convert("string", "bytes", string_of_bytes, costs.first),
    _convert("string", "double", double_g),
    _convert("string", "duration", times.duration_text),
    _convert("string", "int", lambda value: str(int(value))),
    _convert("string", "timestamp", times.timestamp_text),
    _convert("string", "uint", lambda value: str(int(value))),
    _convert("timestamp", "timestamp", _same),
    _convert("timestamp", "int", times.from_seconds),
    _convert("timestamp", "string", timestamp_of_string),
    free("type", "type", ("dyn", "type"), lambda value: TypeValue(kind(value))),
    _convert("uint", "uint", _same),
    _convert("uint", "double", uint_of_double),
    _convert("uint", "int", checked_uint),
    _convert("uint", "string", uint_of_string),
)
FOLDED = frozenset(
    ("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint")
)
"""Functions that the API server evaluates while compiling when their argument is a constant."""


def _reader(function: str) -> Callable[..., int]:
    part = times.TIMESTAMP_PARTS[function]
    return lambda value, zone="": part(times.in_zone(value, zone))


def _milliseconds(value: Timestamp, zone: str = "") -> int:
    times.in_zone(value, zone)  # an unknown zone is an error here too
    return value.nanoseconds % times.SECOND // 10**6


def _time_readers() -> tuple[Overload, ...]:
    found = []
    readers = {function: _reader(function) for function in times.TIMESTAMP_PARTS}
    for function, call in (readers | {"getMilliseconds": _milliseconds}).items():
        found.append(member(f"timestamp_{function}", function, ("timestamp", "int"), call))
        found.append(member(f"timestamp_{function}_with_tz", function, ("timestamp", "string", "int"), call))
    for function, part in times.DURATION_PARTS.items():
        found.append(member(f"duration_{function}", function, ("duration", "int"), part))
    return tuple(found)


TIME_READERS: tuple[Overload, ...] = _time_readers()
