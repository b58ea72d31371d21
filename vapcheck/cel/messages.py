"""Message literals such as `google.protobuf.Duration{seconds: 1}`: the few that stand for CEL values.

The API server knows no others that can be built: those of its own types fail when they run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vapcheck.cel.attributes import MISSING
from vapcheck.cel.calls import held
from vapcheck.cel.errors import CelError
from vapcheck.cel.frame import COST, Frame, Run
from vapcheck.cel.values import Duration, Timestamp, Uint

MESSAGE_COST = 40
"""Cost units of making a message (cel-go common/cost.go)."""

Fields = Mapping[str, Any]


def _nanoseconds(fields: Fields) -> int:
    return int(fields.get("seconds", 0)) * 10**9 + int(fields.get("nanos", 0))


def _json(fields: Fields) -> Any:
    value = next(iter(fields.values()), None)
    return float(value) if "number_value" in fields and value is not None else value


def _wrapper(zero: Any) -> Callable[[Fields], Any]:
    return lambda fields: fields.get("value", zero)


_BUILDERS: dict[str, Callable[[Fields], Any]] = {
    "Duration": lambda fields: Duration(_nanoseconds(fields)),
    "Timestamp": lambda fields: Timestamp(_nanoseconds(fields)),
    "Value": _json,
    "ListValue": lambda fields: list(fields.get("values", [])),
    "Struct": lambda fields: dict(fields.get("fields", {})),
    "BoolValue": _wrapper(False),
    "BytesValue": _wrapper(b""),
    "DoubleValue": _wrapper(0.0),
    "FloatValue": _wrapper(0.0),
    "Int32Value": _wrapper(0),
    "Int64Value": _wrapper(0),
    "StringValue": _wrapper(""),
    "UInt32Value": _wrapper(Uint(0)),
    "UInt64Value": _wrapper(Uint(0)),
}


def message_step(name: str, fields: Sequence[tuple[str, Run, bool]]) -> Run:
    """A message literal: its fields from the left, each with whether it is optional."""
    package, _, short = name.rpartition(".")
    build = _BUILDERS.get(short) if package == "google.protobuf" else None

    def run(frame: Frame) -> Any:
        frame[COST] += MESSAGE_COST
        values: dict[str, Any] = {}
        for field, value_of, optional in fields:
            value = value_of(frame)
            if optional:
                value = held(f"entry '{field}'", value)
                if value is MISSING:
                    continue
            values[field] = value
        if build is None:
            raise CelError(f"unknown type '{name}'")
        try:
            return build(values)
        except (TypeError, ValueError):
            raise CelError(f"unsupported field value in {name}") from None

    return run
