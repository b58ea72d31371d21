"""Classes of CEL values that the interpreter and the function libraries share.

Types that Python lacks: unsigned integers, optionals, and opaque values that only functions can read. It
must not depend on any function, so that both the interpreter and the libraries can import it.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

from vapcheck.cel.errors import NoSuchOverload


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
