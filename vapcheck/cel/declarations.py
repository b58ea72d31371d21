"""Declarations for the checker: the API server's functions and the types of variables.

The checker is the type checker of cel-expr-python, which wraps cel-cpp. It is configured with an environment
file, a format of cel-go and cel-cpp, because only this format supports opaque types and type parameters; the
file is YAML, written here as JSON. Facts: apiserver 0.36 pkg/cel/environment/base.go and
pkg/admission/plugin/cel/compile.go. Nothing here evaluates.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from typing import Any

from cel_expr_python import cel

from vapcheck.cel.conversions import CONVERSIONS
from vapcheck.cel.dispatch import split_type
from vapcheck.cel.libraries import ALL, overloads
from vapcheck.cel.libraries.declaration import Overload
from vapcheck.cel.strings import OPTIONALS, STRINGS

EXTENSIONS: list[dict[str, Any]] = [
    {"name": "optional"},
    {"name": "sets"},
    {"name": "two-var-comprehensions"},
]
"""Libraries that come with the checker and that Kubernetes has; they declare their functions themselves."""
_LISTS = {"name": "lists"}
"""The list library that comes with the checker. Its types are looser than the API server's, so it is used
only for expressions with sortBy(), a macro that nothing else defines."""
_IN_LISTS = frozenset(
    ("slice", "flatten", "sort", "@sortByAssociatedKeys", "lists.range", "reverse", "distinct")
)
"""Functions that `_LISTS` declares; where it is used, declaring them again would be an error."""
_UNWRAPPING = frozenset(("optional.unwrap", "unwrapOpt"))
"""Functions of optionals that the checker's own library `optional` does not declare."""
_ARITHMETIC = (
    "_*_ multiply: double, int, uint",
    "_/_ divide: double, int, uint",
    "_-_ subtract: double, duration-duration, int, timestamp-duration, timestamp-timestamp, uint",
    "-_ negate: double, int",
    "_+_ add: bytes, double, duration-duration, duration-timestamp, timestamp-duration, "
    "int, list, string, uint",
)
"""The arithmetic operators, each as `OPERATOR VERB: OPERANDS, ...`.

OPERANDS is one type for all operands, or `LEFT-RIGHT` (durations and timestamps); `_result` gives the type of
the result. VERB begins the overload's id. The overloads are in cel-go's order (common/stdlib/standard.go): an
operand whose type nothing else determines, as in `[].map(x, x * x)`, takes that of the first. The checker's
own order differs."""
_SIZED = {"int": "int64", "uint": "uint64"}
_NUMBERS = {**_SIZED, "double": "double"}
_ORDERS = {"_<_": "less", "_<=_": "less_equals", "_>_": "greater", "_>=_": "greater_equals"}


def type_entry(signature: str) -> dict[str, Any]:
    """The entry for a type in the environment file."""
    name, parameters = split_type(signature)
    if len(name) == 1 and name.isupper():
        return {"type_name": name, "is_type_param": True}
    name = {"google.protobuf.Duration": "duration", "google.protobuf.Timestamp": "timestamp"}.get(name, name)
    entry: dict[str, Any] = {"type_name": name}
    if parameters:
        entry["params"] = [type_entry(parameter) for parameter in parameters]
    return entry


def _overload_entry(overload: Overload) -> dict[str, Any]:
    parameters = [type_entry(parameter) for parameter in overload.parameters]
    entry: dict[str, Any] = {"id": overload.id, "return": type_entry(overload.returns)}
    if overload.member:
        entry["target"] = parameters.pop(0)
    if parameters:
        entry["args"] = parameters
    return entry


def _functions(overloads: Iterable[Overload], without: frozenset[str]) -> list[dict[str, Any]]:
    by_name: dict[str, list[dict[str, Any]]] = {}
    for overload in overloads:
        if overload.function not in without:
            by_name.setdefault(overload.function, []).append(_overload_entry(overload))
    return [{"name": name, "overloads": entries} for name, entries in by_name.items()]


def _arithmetic() -> Iterator[dict[str, Any]]:
    """The entries for the operators of `_ARITHMETIC` in the environment file."""
    for line in _ARITHMETIC:
        head, _, kinds = line.partition(": ")
        operator, verb = head.split()
        overloads = []
        for kind in kinds.split(", "):
            one, _, other = kind.partition("-")
            operands = [one] if operator == "-_" else [one, other or one]
            *types, returned = (
                type_entry("list(A)" if name == "list" else name) for name in (*operands, _result(one, other))
            )
            name = f"{verb}_{one}_{other}" if other else f"{verb}_{_SIZED.get(one, one)}"
            overloads.append({"id": name, "args": types, "return": returned})
        yield {"name": operator, "overloads": overloads}


def _result(one: str, other: str) -> str:
    """The type of an operation of `_ARITHMETIC`: that of its operands, `one`, if there is no `other`.

    Of two times, equal ones (duration and duration, or the difference of timestamps) give a duration, a
    timestamp and a duration give a timestamp.
    """
    if not other:
        return one
    return "duration" if one == other else "timestamp"


@lru_cache(maxsize=4)
def configuration(sorting: bool, minor: str = ALL) -> Any:
    """The checker's configuration without variables.

    `sorting`: for expressions with sortBy(). `minor`: the version of Kubernetes (`libraries.overloads`).
    """
    declared = overloads(minor)
    sorting = sorting and any(overload.function == "sort" for overload in declared)
    optionals = [overload for overload in OPTIONALS if overload.function in _UNWRAPPING]
    strings = [overload for overload in CONVERSIONS if overload.function == "string"]
    arithmetic = list(_arithmetic())
    document = {
        "stdlib": {
            "exclude_functions": [{"name": each["name"]} for each in ({"name": "string"}, *arithmetic)]
        },
        "extensions": [*EXTENSIONS, _LISTS] if sorting else EXTENSIONS,
        "functions": arithmetic
        + _functions(
            (*strings, *optionals, *STRINGS, *declared), without=_IN_LISTS if sorting else frozenset()
        ),
    }
    return cel.NewEnvConfigFromYaml(json.dumps(document))


@lru_cache(maxsize=1)
def number_orders() -> Any:
    """Declares `<`, `<=`, `>` and `>=` between int, uint and double, which Kubernetes allows."""
    declared = []
    for operator, order in _ORDERS.items():
        overloads = [
            cel.Overload(
                f"{order}_{one_name}_{other_name}",
                cel.Type.BOOL,
                [PRIMITIVE_TYPES[one], PRIMITIVE_TYPES[other]],
            )
            for one, one_name in _NUMBERS.items()
            for other, other_name in _NUMBERS.items()
            if one != other
        ]
        declared.append(cel.FunctionDecl(operator, overloads))
    return cel.CelExtension("kubernetes-number-orders", declared)


PRIMITIVE_TYPES = {
    "bool": cel.Type.BOOL,
    "bytes": cel.Type.BYTES,
    "double": cel.Type.DOUBLE,
    "duration": cel.Type.DURATION,
    "dyn": cel.Type.DYN,
    "int": cel.Type.INT,
    "null_type": cel.Type.NULL,
    "string": cel.Type.STRING,
    "timestamp": cel.Type.TIMESTAMP,
    "uint": cel.Type.UINT,
}
"""The checker's types without parameters, by name."""
_DEEPEST_TYPE = 12
"""Nesting depth up to which the checker accepts a variable's type; deeper levels are declared as dyn."""


def checker_type(signature: str, messages: Collection[str] = (), level: int = 1) -> Any:
    """The checker's type of a variable; `messages` are the names of types that have fields."""
    name, parameters = split_type(signature)
    if name in PRIMITIVE_TYPES:
        return PRIMITIVE_TYPES[name]
    if level > _DEEPEST_TYPE:
        return cel.Type.DYN
    if name in messages:
        return cel.Type(name)
    inner = [checker_type(parameter, messages, level + 1) for parameter in parameters]
    if name == "list":
        return cel.Type.List(inner[0] if inner else cel.Type.DYN)
    if name == "map":
        key, value = inner or [cel.Type.DYN, cel.Type.DYN]
        return cel.Type.Map(key, value)
    if name == "type" and inner:
        return cel.Type.Type(inner[0])
    return cel.Type.AbstractType(name, inner)
