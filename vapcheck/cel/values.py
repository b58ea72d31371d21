"""CEL values that Python's own types don't cover, and the language's kinds and equality.

null, bool, int, float, str, bytes, list (or tuple) and dict stand for themselves, so that objects read from
JSON are used as they are. It must not depend on any function, so that both the interpreter and the libraries
can import it.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

from vapcheck.cel.errors import CelError, NoSuchOverload

INT_MIN, INT_MAX, UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1


class Uint(int):
    """An unsigned 64 bit integer, `1u`; distinguished from int by its class only."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{int(self)}u"


@dataclass(frozen=True, slots=True, eq=False)
class Optional:
    """A value that may be missing: `optional.of(x)`, `object.?field`."""

    value: Any = None
    present: bool = False


NONE = Optional()


def some(value: Any) -> Optional:
    """An optional that holds `value`."""
    return Optional(value, True)


class Opaque:
    """A value without fields. Subclasses are frozen dataclasses: their type, and what equality sees."""

    __slots__ = ()
    type_name: ClassVar[str]
    """The CEL type, as `kubernetes.Quantity`."""

    def key(self) -> Hashable:
        """What equality looks at."""
        raise NotImplementedError

    def equals(self, other: object) -> bool:
        """CEL's `==` with this value on the left. Raises NoSuchOverload where the API server does."""
        if type(other) is not type(self):
            raise NoSuchOverload
        return self.key() == other.key()

    def size(self) -> int:
        """The size that costs count with."""
        return 1

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.key() == other.key()

    def __hash__(self) -> int:
        return hash((self.type_name, self.key()))


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A length of time in nanoseconds, within 64 bits."""

    nanoseconds: int

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Timestamp):
            return other + self
        if not isinstance(other, Duration):
            return NotImplemented
        return Duration(_within(self.nanoseconds + other.nanoseconds))

    def __sub__(self, other: Duration) -> Duration:
        return Duration(_within(self.nanoseconds - other.nanoseconds))


def _within(nanoseconds: int) -> int:
    if not INT_MIN <= nanoseconds <= INT_MAX:
        raise CelError("integer overflow")
    return nanoseconds


TIMESTAMP_MIN, TIMESTAMP_MAX = -62135596800, 253402300799
"""Seconds of the first and the last moment that a timestamp may have: years 1 and 9999."""


@dataclass(frozen=True, slots=True, eq=False)
class Timestamp:
    """A moment: nanoseconds since 1970 in UTC, within the years 1 to 9999."""

    nanoseconds: int
    offset: int = 0
    """Seconds east of UTC of the zone that it was written in; only its text shows it."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timestamp) and self.nanoseconds == other.nanoseconds

    def __lt__(self, other: Timestamp) -> bool:
        return self.nanoseconds < other.nanoseconds

    def __gt__(self, other: Timestamp) -> bool:
        return self.nanoseconds > other.nanoseconds

    def __hash__(self) -> int:
        return hash(self.nanoseconds)

    def __add__(self, other: Duration) -> Timestamp:
        nanoseconds = self.nanoseconds + other.nanoseconds
        if not TIMESTAMP_MIN <= nanoseconds // 10**9 <= TIMESTAMP_MAX:
            raise CelError("timestamp overflow")
        return Timestamp(nanoseconds, self.offset)

    def __sub__(self, other: Duration | Timestamp) -> Any:
        if isinstance(other, Timestamp):
            return Duration(_within(self.nanoseconds - other.nanoseconds))
        return self + Duration(_within(-other.nanoseconds))


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as a value: what `type(x)` gives and names such as `int` stand for."""

    name: str


@dataclass(frozen=True, slots=True)
class BoolKey:
    """The key `true` or `false` of a map: Python's True would be the same key as 1."""

    value: bool


def to_key(value: Any) -> Any:
    """A value as the key of a dict."""
    return BoolKey(value) if value is True or value is False else value


def from_key(key: Any) -> Any:
    """The value that a dict's key stands for."""
    return key.value if type(key) is BoolKey else key


_KINDS: dict[type, str] = {
    type(None): "null_type",
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    tuple: "list",
    dict: "map",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    Optional: "optional_type",
    TypeValue: "type",
}


def kind(value: Any) -> str:
    """The name of a value's type as `type()` and error texts show it."""
    name = _KINDS.get(type(value))
    if name is None:
        return str(getattr(value, "type_name", type(value).__name__))
    if name == "int" and not INT_MIN <= value <= INT_MAX:
        return "double"  # JSON numbers beyond 64 bits are doubles for the API server
    return name


def equal(left: Any, right: Any) -> bool:
    """`==`: numbers compare by value across kinds, everything else only within its kind.

    Raises NoSuchOverload where an opaque kind refuses the other value; inside lists and maps such a refusal
    counts as equal, because only a clear false ends cel-go's comparison.
    """
    if left is None or right is None:
        return left is right
    if type(left) is str or type(left) is bool:
        return type(left) is type(right) and bool(left == right)
    if isinstance(left, Opaque):
        return left.equals(right)
    if isinstance(left, (int, float)):
        return type(right) is not bool and isinstance(right, (int, float)) and _same_number(left, right)
    if isinstance(left, (list, tuple)):
        return (
            isinstance(right, (list, tuple))
            and len(left) == len(right)
            and all(_agree(one, other) for one, other in zip(left, right, strict=True))
        )
    if isinstance(left, dict):
        return (
            isinstance(right, dict)
            and len(left) == len(right)
            and all(key in right and _agree(value, right[key]) for key, value in left.items())
        )
    if isinstance(left, Optional):
        return (
            isinstance(right, Optional)
            and left.present == right.present
            and (not left.present or equal(left.value, right.value))
        )
    return type(left) is type(right) and bool(left == right)


def _agree(one: Any, other: Any) -> bool:
    try:
        return equal(one, other)
    except NoSuchOverload:
        return True


def _same_number(left: float, right: float) -> bool:
    if isinstance(left, float) == isinstance(right, float):
        return left == right
    whole, fraction = (right, left) if isinstance(left, float) else (left, right)
    if not INT_MIN <= whole <= UINT_MAX:
        return float(whole) == fraction  # a double too, from JSON
    if not INT_MIN <= fraction <= (UINT_MAX if isinstance(whole, Uint) else INT_MAX):
        return False
    return float(whole) == fraction  # the API server compares as doubles, so large numbers may coincide
