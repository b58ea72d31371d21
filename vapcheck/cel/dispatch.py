"""Choosing the overload of a function by the kinds of its arguments, as cel-go does when it runs.

Facts: cel-go 0.26 common/decls/decls.go (guards and dynamic dispatch) and common/types/types.go (which
value is assignable to which type). Nothing here knows what a function does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from vapcheck.cel.errors import NoSuchOverload
from vapcheck.cel.libraries.declaration import Cost, Overload
from vapcheck.cel.values import Duration, Opaque, Optional, Timestamp, TypeValue, Uint, kind

Fits = Callable[[Any], bool]
"""Whether a value may be the argument of a type."""

_SIMPLE: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "uint": (Uint,),
    "double": (float,),
    "string": (str,),
    "bytes": (bytes,),
    "null_type": (type(None),),
    "duration": (Duration,),
    "google.protobuf.Duration": (Duration,),
    "timestamp": (Timestamp,),
    "google.protobuf.Timestamp": (Timestamp,),
    "type": (TypeValue,),
    "list": (list, tuple),
    "map": (dict,),
    "optional_type": (Optional,),
}


def split_type(signature: str) -> tuple[str, list[str]]:
    """ "map(string, list(int))" as ("map", ["string", "list(int)"])."""
    name, _, rest = signature.partition("(")
    parts: list[str] = []
    depth, start = 0, 0
    for position, char in enumerate(rest[:-1]):
        if char == "," and depth == 0:
            parts.append(rest[start:position].strip())
            start = position + 1
        depth += (char == "(") - (char == ")")
    if rest:
        parts.append(rest[start:-1].strip())
    return name.strip(), parts


@lru_cache(maxsize=512)
def fits(signature: str) -> Fits | None:
    """The test for a type; None when every value passes. Of a list or map the first element is looked at."""
    name, parameters = split_type(signature)
    if name in ("dyn", "any") or (len(name) == 1 and name.isupper()):
        return None
    types = _SIMPLE.get(name)
    if types is None:
        return lambda value: isinstance(value, Opaque) and value.type_name == name
    inner = [fits(parameter) for parameter in parameters]
    if name == "list" and inner and inner[0]:
        element = inner[0]
        return lambda value: type(value) in types and (not value or element(value[0]))
    if name == "map" and any(inner):
        return lambda value: type(value) in types and _entry_fits(value, inner)
    if len(types) == 1:
        only = types[0]
        return lambda value: type(value) is only
    return lambda value: type(value) in types


def _entry_fits(value: dict[Any, Any], inner: list[Fits | None]) -> bool:
    for key, entry in value.items():
        return all(test is None or test(part) for test, part in zip(inner, (key, entry), strict=True))
    return True


Chosen = tuple[Callable[..., Any], Cost]
"""What to call with the arguments, and what prices the call."""


def dispatcher(name: str, overloads: Sequence[Overload]) -> Callable[[Sequence[Any]], Chosen]:
    """Finds the overload that fits the arguments; where none does, one that raises NoSuchOverload with
    the kinds of the arguments, or, without a name, the short one."""
    candidates = [
        (overload, tuple(fits(parameter) for parameter in overload.parameters), overload.cost)
        for overload in overloads
    ]

    def refuse(*arguments: Any) -> Any:
        if not name:
            raise NoSuchOverload
        raise NoSuchOverload(f"no such overload: {name}({', '.join(map(kind, arguments))})")

    def choose(arguments: Sequence[Any]) -> Chosen:
        for overload, tests, cost in candidates:
            if len(tests) != len(arguments):
                continue
            for test, argument in zip(tests, arguments, strict=True):
                if test is not None and not test(argument):
                    break
            else:
                return overload.call, cost
        return refuse, candidates[0][2]

    return choose
