"""How a function of the Kubernetes CEL libraries is declared: names, types, the Python behind it, its cost.

Declarations only: the interpreter converts values between CEL and Python, and a function
here sees plain Python values. Types are CEL signatures (`string`, `list(int)`, `kubernetes.Quantity`,
`optional_type(list(string))`; a single capital letter is a type parameter).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from vapcheck.cel.errors import CelError

Cost = Callable[[Sequence[Any], Any], int]
"""Cost units of one call, from its arguments (the receiver first) and its result."""


def unit(_arguments: Sequence[Any], _result: Any) -> int:
    """Whatever has no price of its own: one unit (cel-go 0.26 interpreter/runtimecost.go)."""
    return 1


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of one function."""

    function: str
    """As written in CEL; a namespaced one with its dot (`ip.isCanonical`)."""
    member: bool
    """Whether it is called on a receiver, which is then the first parameter."""
    parameters: tuple[str, ...]
    returns: str
    call: Callable[..., Any]
    """Raises CelError with the API server's text."""
    cost: Cost
    id: str
    """The overload's name in the API server (apiserver 0.36 pkg/cel/library), unique."""


def member(
    id: str, function: str, signature: tuple[str, ...], call: Callable[..., Any], cost: Cost = unit
) -> Overload:
    """A function called on a receiver; the last type of `signature` is the result's."""
    return Overload(function, True, signature[:-1], signature[-1], call, cost, id)


def free(
    id: str, function: str, signature: tuple[str, ...], call: Callable[..., Any], cost: Cost = unit
) -> Overload:
    """A function without receiver; the last type of `signature` is the result's."""
    return Overload(function, False, signature[:-1], signature[-1], call, cost, id)


def accepted_by(read: Callable[..., Any], error: type[Exception] = CelError) -> Callable[..., bool]:
    """The function that says whether `read` takes a text; `error` is how it refuses one."""

    def accepted(*arguments: Any) -> bool:
        try:
            read(*arguments)
        except error:
            return False
        return True

    return accepted
