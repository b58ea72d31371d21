"""Compiled steps for calls of functions and for literals of lists, maps and messages.

Facts: cel-go 0.26 interpreter/interpretable.go (evalVarArgs, evalList, evalMap) and common/cost.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vapcheck.cel.attributes import MISSING
from vapcheck.cel.comprehensions import LIST_COST
from vapcheck.cel.dispatch import Chosen
from vapcheck.cel.errors import CelError, EvaluationError, InternalError
from vapcheck.cel.frame import COST, Frame, Run
from vapcheck.cel.functions import Function
from vapcheck.cel.go_format import native_name, verb_v
from vapcheck.cel.logic import value_or_error
from vapcheck.cel.values import Duration, Optional, Timestamp, Uint, kind, to_key

MAP_COST = 30
"""Cost units of making a map (cel-go common/cost.go)."""
MESSAGE_COST = 40
"""Cost units of making a message (the same file)."""


def call_step(called: Function, runs: Sequence[Run], single: bool) -> Run:
    """A call: its arguments from the left, then the function, then its price.

    `single`: the checker knows the overload; then cel-go evaluates the second argument even where the first
    one failed.
    """
    if len(runs) == 2:
        return _with_two(called, runs[0], runs[1], single)

    def run(frame: Frame) -> Any:
        arguments: list[Any] = []
        for argument in runs:
            try:
                arguments.append(argument(frame))
            except CelError as error:
                arguments.append(error)
                if len(arguments) == len(runs):
                    frame[COST] += _price_of_failure(called, arguments, error)
                raise
        return _finish(frame, called, arguments)

    return run


def _finish(frame: Frame, called: Function, arguments: list[Any]) -> Any:
    call, price = called(arguments)
    try:
        result = call(*arguments)
    except EvaluationError as error:
        frame[COST] += _price_of_failure(called, arguments, error)
        raise
    frame[COST] += price(arguments, result)
    return result


def _price_of_failure(called: Function, arguments: list[Any], error: EvaluationError) -> int:
    """A failed call costs what it would; failed arguments and results count as one character."""
    try:
        return called(arguments)[1](arguments, error)
    except (TypeError, AttributeError, IndexError, ValueError):
        return 1  # arguments of kinds that the price can't measure


def _with_two(called: Function, left: Run, right: Run, single: bool) -> Run:
    def run(frame: Frame) -> Any:
        arguments: list[Any] = []
        try:
            arguments.append(left(frame))
            arguments.append(right(frame))
        except CelError as error:
            if arguments or single:
                arguments.append(error)
                if len(arguments) == 1:
                    arguments.append(value_or_error(frame, right))
                frame[COST] += _price_of_failure(called, arguments, error)
            raise
        return _finish(frame, called, arguments)

    return run


def text_step(simple: Chosen, called: Function, operand: Run, constant: str) -> Run:
    """startsWith(), contains(), matches() with a constant, the most frequent calls of policies."""
    call, price = simple
    slowly = call_step(called, [operand, lambda _frame: constant], True)

    def run(frame: Frame) -> Any:
        start = frame[COST]
        try:
            text = operand(frame)
        except EvaluationError:
            frame[COST] += 1
            raise
        if type(text) is str:
            arguments = (text, constant)
            frame[COST] += price(arguments, None)
            return call(text, constant)
        frame[COST] = start
        return slowly(frame)

    return run


def fragile_step(called: Function, runs: Sequence[Run]) -> Run:
    """A call that cel-go can price for lists only: for all else it stops with an internal error."""

    def run(frame: Frame) -> Any:
        arguments = [value_or_error(frame, argument) for argument in runs]
        for argument in arguments:
            if not isinstance(argument, (list, tuple)):
                raise InternalError(_no_list(argument))
        return _finish(frame, called, arguments)

    return run


_WITHOUT_ADDITION = (
    "*types.Err",
    "types.Bool",
    "types.Null",
    "*types.Optional",
    "*types.Type",
    "*types.baseMap",
)


def _no_list(value: Any) -> str:
    name = "*types.Err" if isinstance(value, EvaluationError) else native_name(value)
    method = "Add" if name in _WITHOUT_ADDITION else "Contains"
    return f"interface conversion: {name} is not traits.Lister: missing method {method}"


def held(place: str, value: Any) -> Any:
    """What is put into a place written with `?`, MISSING for nothing. Raises CelError without an optional."""
    if not isinstance(value, Optional):
        raise CelError(f"cannot initialize optional {place} from non-optional value {verb_v(value)}")
    return value.value if value.present else MISSING


def list_step(elements: Sequence[Run], optional: frozenset[int]) -> Run:
    """A list literal that isn't constant."""

    def run(frame: Frame) -> list[Any]:
        values = []
        for index, element in enumerate(elements):
            try:
                value = element(frame)
            except EvaluationError:
                frame[COST] += LIST_COST
                raise
            if index in optional:
                value = held("list element", value)
                if value is MISSING:
                    continue
            values.append(value)
        frame[COST] += LIST_COST
        return values

    return run


def map_step(entries: Sequence[tuple[Run, Run, bool]]) -> Run:
    """A map literal."""

    def run(frame: Frame) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        for key_of, value_of, optional in entries:
            try:
                key = key_of(frame)
                value = value_of(frame)
            except EvaluationError:
                frame[COST] += MAP_COST
                raise
            if isinstance(key, (list, dict)):
                raise CelError(f"unsupported key type: {kind(key)}")
            if optional:
                value = held(f"entry '{verb_v(key)}'", value)
                if value is MISSING:
                    result.pop(to_key(key), None)
                    continue
            result[to_key(key)] = value
        frame[COST] += MAP_COST
        return result

    return run


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
    """A message literal, as `google.protobuf.Duration{seconds: 1}`: its fields from the left, each with
    whether it is optional. The API server can build only those that stand for CEL values."""
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
