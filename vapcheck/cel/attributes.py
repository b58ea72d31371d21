"""Reading values: identifiers, fields, indexes, has() and the optional forms, with cel-go's errors and costs.

A chain such as `object.spec.containers[0]` is one step, as in cel-go (interpreter/attributes.go, 0.26):
each field costs one unit and the chain one more. Nothing here calls functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from vapcheck.cel.errors import CelError
from vapcheck.cel.frame import COST, SCOPE, VALUES, Frame, Run
from vapcheck.cel.go_format import native_name, verb_v
from vapcheck.cel.values import NONE, Opaque, Optional, Uint, kind, some, to_key

MISSING: Any = object()
"""Stands for what isn't there, where None is a value."""


@dataclass(frozen=True, slots=True)
class Qualifier:
    """One step into a value."""

    key: Any = None
    """The field or index, where it is known before evaluation."""
    run: Run | None = None
    """Computes the field or index."""
    optional: bool = False
    """Written with `?`: absence gives optional.none()."""
    test: bool = False
    """The last one of has(): whether it is there."""

    @property
    def plain(self) -> bool:
        """A field name known beforehand, which must be there."""
        return self.run is None and type(self.key) is str and not self.optional and not self.test


def find(value: Any, key: Any, presence: bool) -> Any:
    """The element of a map or list, MISSING when it isn't there and only its presence is asked for.

    Raises CelError: "no such key: x", "index out of bounds: 5", "unsupported index type 'string' in list".
    """
    if isinstance(value, dict):
        found = value.get(to_key(key), MISSING)
        if found is MISSING and not presence:
            raise CelError(f"no such key: {verb_v(key)}")
        return found
    if isinstance(value, (list, tuple)):
        index = _list_index(key)
        if 0 <= index < len(value):
            return value[index]
        if presence:
            return MISSING
        raise CelError(f"index out of bounds: {verb_v(key)}")
    if presence and not isinstance(value, Opaque):
        return MISSING
    raise CelError(f"no such key: {verb_v(key)}")


def _list_index(key: Any) -> int:
    if type(key) is int or type(key) is Uint:
        return int(key)
    if type(key) is float:
        if key.is_integer():
            return int(key)
        raise CelError(f"unsupported index value {verb_v(key)} in list")
    raise CelError(f"unsupported index type '{kind(key)}' in list")


_NATIVE = {"null_type": "<nil>", "list": "[]interface {}", "map": "map[string]interface {}"}


def checked_key(key: Any) -> Any:
    """A field or index. Raises CelError for a kind that can't be one."""
    if isinstance(key, (str, bool, int, float)):
        return key
    raise CelError(f"invalid qualifier type: {_NATIVE.get(kind(key)) or native_name(key)}")


def walk(frame: Frame, value: Any, qualifiers: tuple[Qualifier, ...]) -> Any:
    """Apply qualifiers one by one, each at the cost of one unit."""
    optional = isinstance(value, Optional)
    if optional:
        if not value.present:
            return _absent(qualifiers)
        value = value.value
    for qualifier in qualifiers:
        optional = optional or qualifier.optional
        if not optional or qualifier.test:
            frame[COST] += 1
        key = qualifier.key if qualifier.run is None else checked_key(qualifier.run(frame))
        if qualifier.test:
            return find(value, key, True) is not MISSING
        value = find(value, key, optional)
        if value is MISSING:
            return _absent(qualifiers)
        if optional:
            frame[COST] += 1
    return some(value) if optional else value


def _absent(qualifiers: tuple[Qualifier, ...]) -> Any:
    """What a chain gives when something optional in it is missing; has() says no."""
    return False if qualifiers and qualifiers[-1].test else NONE


def resolve(frame: Frame, name: str) -> Any:
    """The value of a declared name. Raises CelError when the scope has none."""
    value = frame[VALUES].get(name, MISSING)
    return frame[SCOPE].resolve(name) if value is MISSING else value


def global_chain(name: str, qualifiers: tuple[Qualifier, ...], base: int) -> Run:
    """A chain that starts at a declared name; `base` is the cost of the name itself."""
    return _chain(lambda frame: resolve(frame, name), (VALUES, name), qualifiers, base)


def local_chain(slot: int, qualifiers: tuple[Qualifier, ...], base: int) -> Run:
    """A chain that starts at a variable of a comprehension."""
    return _chain(itemgetter(slot), (slot,), qualifiers, base)


def _chain(start: Run, place: tuple[Any, ...], qualifiers: tuple[Qualifier, ...], base: int) -> Run:
    """A chain from what `start` gives, which the frame has at `place` as a rule."""
    if all(qualifier.plain for qualifier in qualifiers):
        keys = [qualifier.key for qualifier in qualifiers]
        return _quickly((*place, *keys), computed_chain(start, qualifiers, base), base + len(keys))
    if qualifiers[-1].test and all(qualifier.plain for qualifier in qualifiers[:-1]):
        return _tested(_chain(start, place, qualifiers[:-1], base), qualifiers[-1])
    return computed_chain(start, qualifiers, base)


def _quickly(steps: tuple[Any, ...], slowly: Run, total: int) -> Run:
    """What the frame has at these steps at the cost of `total`; what is not there in this way, `slowly`."""

    def one(frame: Frame) -> Any:
        frame[COST] += total
        return frame[first]

    def two(frame: Frame) -> Any:
        try:
            value = frame[first][second]
        except (KeyError, TypeError):
            return slowly(frame)
        frame[COST] += total
        return value

    def three(frame: Frame) -> Any:
        try:
            value = frame[first][second][third]
        except (KeyError, TypeError):
            return slowly(frame)
        frame[COST] += total
        return value

    def four(frame: Frame) -> Any:
        try:
            value = frame[first][second][third][fourth]
        except (KeyError, TypeError):
            return slowly(frame)
        frame[COST] += total
        return value

    def five(frame: Frame) -> Any:
        try:
            value = frame[first][second][third][fourth][fifth]
        except (KeyError, TypeError):
            return slowly(frame)
        frame[COST] += total
        return value

    def many(frame: Frame) -> Any:
        value: Any = frame
        try:
            for step in steps:
                value = value[step]
        except (KeyError, TypeError):
            return slowly(frame)
        frame[COST] += total
        return value

    first, second, third, fourth, fifth = (*steps, "", "", "", "")[:5]
    return {1: one, 2: two, 3: three, 4: four, 5: five}.get(len(steps), many)


def _tested(path: Run, last: Qualifier) -> Run:
    """has() at the end of a plain chain."""
    key = last.key

    def run(frame: Frame) -> Any:
        value = path(frame)
        if type(value) is dict:
            frame[COST] += 1
            return key in value
        return walk(frame, value, (last,))

    return run


def computed_chain(operand: Run, qualifiers: tuple[Qualifier, ...], base: int) -> Run:
    """A chain that starts at the value of another expression."""

    def run(frame: Frame) -> Any:
        frame[COST] += base  # also where the operand fails
        return walk(frame, operand(frame), qualifiers)

    return run
