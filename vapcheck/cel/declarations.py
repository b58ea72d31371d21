"""The checker's input: the API server's functions and the types of `request` and `namespaceObject`.

The checker is configured with the YAML (here JSON) of cel-go's and cel-cpp's environment files, because
only this format supports opaque types and type parameters. Facts: apiserver 0.36 pkg/cel/environment/base.go
and pkg/admission/plugin/cel/compile.go. Nothing here evaluates.
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
"""Libraries of the checker that Kubernetes has; their functions are declared by them."""
_LISTS = {"name": "lists"}
"""The checker's list library: its macro sortBy is needed, but its types are looser than the API server's."""
_IN_LISTS = frozenset(
    ("slice", "flatten", "sort", "@sortByAssociatedKeys", "lists.range", "reverse", "distinct")
)
_ARITHMETIC = (
    "_*_ multiply: double, int, uint",
    "_/_ divide: double, int, uint",
    "_-_ subtract: double, duration-duration, int, timestamp-duration, timestamp-timestamp, uint",
    "-_ negate: double, int",
    "_+_ add: bytes, double, duration-duration, duration-timestamp, timestamp-duration, "
    "int, list, string, uint",
)
"""The overloads of operators in cel-go's order (common/stdlib/standard.go): an operand whose type nothing
else determines, as in `[].map(x, x * x)`, takes that of the first. The checker's own order differs."""
_SIZED = {"int": "int64", "uint": "uint64"}
_NUMBERS = {**_SIZED, "double": "double"}
_ORDERS = {"_<_": "less", "_<=_": "less_equals", "_>_": "greater", "_>=_": "greater_equals"}


def type_entry(signature: str) -> dict[str, Any]:
    """A type as the environment file has it."""
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
    """The operators of `_ARITHMETIC` as the environment file has them."""
    for line in _ARITHMETIC:
        head, _, kinds = line.partition(": ")
        operator, verb = head.split()
        overloads = []
        for kind in kinds.split(", "):
            one, _, other = kind.partition("-")
            operands = [one] if operator == "-_" else [one, other or one]
            result = "duration" if one == other else "timestamp" if other else one
            types = [type_entry("list(A)" if name == "list" else name) for name in operands]
            returned = type_entry("list(A)" if result == "list" else result)
            name = f"{verb}_{one}_{other}" if other else f"{verb}_{_SIZED.get(one, one)}"
            overloads.append({"id": name, "args": types, "return": returned})
        yield {"name": operator, "overloads": overloads}


@lru_cache(maxsize=4)
def configuration(sorting: bool, minor: str = ALL) -> Any:
    """The checker's configuration without variables; `sorting`: for expressions with sortBy(); `minor`: of
    which Kubernetes (`libraries.overloads`)."""
    declared = overloads(minor)
    sorting = sorting and any(overload.function == "sort" for overload in declared)
    optionals = [overload for overload in OPTIONALS if "unwrap" in overload.function]
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
    """`<`, `<=`, `>`, `>=` between different kinds of numbers, which Kubernetes allows."""
    declared = []
    for operator, order in _ORDERS.items():
        overloads = [
            cel.Overload(f"{order}_{one_name}_{other_name}", cel.Type.BOOL, [PLAIN[one], PLAIN[other]])
            for one, one_name in _NUMBERS.items()
            for other, other_name in _NUMBERS.items()
            if one != other
        ]
        declared.append(cel.FunctionDecl(operator, overloads))
    return cel.CelExtension("kubernetes-number-orders", declared)


PLAIN = {
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


_DEEPEST_TYPE = 12
"""Levels that the checker takes of the type of a name; deeper levels are declared as dyn."""


def checker_type(signature: str, messages: Collection[str] = (), level: int = 1) -> Any:
    """A type as the checker's variables have it; `messages` are the types that have fields."""
    name, parameters = split_type(signature)
    if name in PLAIN:
        return PLAIN[name]
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
