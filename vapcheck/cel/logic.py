"""Compiled steps for `&&`, `||`, `?:`, equality and the operators, with their costs.

Facts: cel-go 0.26 interpreter/interpretable.go and runtimecost.go. Where the left operand fails the right
one is still evaluated, because cel-go does so and counts what it costs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import Any

from vapcheck.cel.errors import CelError, EvaluationError, NoSuchOverload
from vapcheck.cel.frame import COST, Frame, Run
from vapcheck.cel.libraries.costs import PER_CHARACTER, size
from vapcheck.cel.values import Opaque, Optional, equal


def both(terms: Sequence[Run], settles: bool) -> Run:
    """`&&` with False, `||` with True: a term that settles it does so whatever errors there are beside it."""
    if len(terms) == 2:
        return _two(terms[0], terms[1], settles)
    other = not settles

    def run(frame: Frame) -> Any:
        problem: CelError | None = None
        for term in terms:
            try:
                value = term(frame)
            except CelError as error:
                problem = problem or error
                continue
            if value is settles:
                return settles
            if value is not other:
                problem = problem or NoSuchOverload()
        if problem is not None:
            raise problem
        return other

    return run


def _two(left: Run, right: Run, settles: bool) -> Run:
    other = not settles

    def run(frame: Frame) -> Any:
        try:
            value = left(frame)
        except CelError as error:
            return _rescued(frame, right, settles, error)
        if value is settles:
            return settles
        if value is not other:
            return _rescued(frame, right, settles, NoSuchOverload())
        value = right(frame)
        if value is True or value is False:
            return bool(value)
        raise NoSuchOverload

    return run


def _rescued(frame: Frame, right: Run, settles: bool, problem: CelError) -> Any:
    """After a failed left term: the right one may still settle it."""
    try:
        value = right(frame)
    except CelError:
        raise problem from None
    if value is settles:
        return settles
    raise problem


def conditional(condition: Run, then: Run, otherwise: Run) -> Run:
    """`condition ? then : otherwise`"""

    def run(frame: Frame) -> Any:
        value = condition(frame)
        if value is True:
            return then(frame)
        if value is False:
            return otherwise(frame)
        raise NoSuchOverload

    return run


def not_strictly_false(operand: Run) -> Run:
    """What the conditions of folds ask: false only for a clear false."""

    def run(frame: Frame) -> Any:
        frame[COST] += 1
        try:
            value = operand(frame)
        except CelError:
            return True
        return value is not False

    return run


def value_or_error(frame: Frame, run: Run) -> Any:
    """The value of a step, or its error as a value."""
    try:
        return run(frame)
    except CelError as error:
        return error


Price = Callable[[Any, Any], int]
_UNKNOWN: Any = object()


def _failed(frame: Frame, left: Any, right: Run, error: CelError, price: Price | None) -> None:
    """Count what a failed operator costs: the right operand is evaluated even where the left one failed."""
    one, other = (error, value_or_error(frame, right)) if left is _UNKNOWN else (left, error)
    frame[COST] += 1 if price is None else price(one, other)


def _size(value: Any) -> int:
    """What costs count as the size of a value: characters, bytes, elements or entries; 1 for all else."""
    if isinstance(value, Optional):
        return _size(value.value) if value.present else 1
    return size(value)


def _shorter(left: Any, right: Any) -> int:
    return ceil(min(_size(left), _size(right)) * PER_CHARACTER)


def _equality_price(left: Any, right: Any) -> int:
    return 1 if isinstance(left, Opaque) else _shorter(left, right)


def unequal(left: Any, right: Any) -> bool:
    """`!=` of two values: true of those that can't be compared, for which `==` is an error."""
    try:
        return not equal(left, right)
    except NoSuchOverload:
        return True


def equality(left: Run, right: Run, wanted: bool) -> Run:
    """`==` with True, `!=` with False."""
    return binary(equal if wanted else unequal, left, right, _equality_price)


def equality_with_text(left: Run, text: str, wanted: bool) -> Run:
    """`==` or `!=` with a string constant: most comparisons of policies."""
    prices = [ceil(length * PER_CHARACTER) for length in range(len(text) + 1)]
    highest = prices[-1]
    least = min(1, highest)

    def run(frame: Frame) -> Any:
        try:
            value = left(frame)
        except EvaluationError:
            frame[COST] += least
            raise
        if type(value) is str:
            frame[COST] += prices[len(value)] if len(value) <= len(text) else highest
            return (value == text) is wanted
        if isinstance(value, Opaque):
            frame[COST] += 1
            return equal(value, text) if wanted else unequal(value, text)
        frame[COST] += ceil(min(_size(value), len(text)) * PER_CHARACTER) if value else least
        return not wanted

    return run


def unary(operation: Callable[[Any], Any], operand: Run) -> Run:
    """An operator with one operand, but for `!`."""

    def run(frame: Frame) -> Any:
        frame[COST] += 1
        return operation(operand(frame))

    return run


def negation(operand: Run) -> Run:
    """`!x`"""

    def run(frame: Frame) -> Any:
        frame[COST] += 1
        value = operand(frame)
        if value is True:
            return False
        if value is False:
            return True
        raise NoSuchOverload

    return run


def _joined(left: Any, right: Any) -> int:
    return ceil((_size(left) + _size(right)) * PER_CHARACTER)


def _elements(_left: Any, right: Any) -> int:
    return _size(right)


PRICES: dict[str, Price] = {"add_string": _joined, "add_bytes": _joined, "in_list": _elements} | {
    f"{order}_{kind}": _shorter
    for order in ("less", "less_equals", "greater", "greater_equals")
    for kind in ("string", "bytes")
}
"""By overload; everything else costs one unit, also where the checker could not determine the overload."""


def binary(operation: Callable[[Any, Any], Any], left: Run, right: Run, price: Price | None) -> Run:
    """An operator with two operands."""

    def run(frame: Frame) -> Any:
        one = _UNKNOWN
        try:
            one = left(frame)
            other = right(frame)
        except CelError as error:
            _failed(frame, one, right, error, price)
            raise
        frame[COST] += 1 if price is None else price(one, other)
        return operation(one, other)

    return run


def membership(operand: Run, among: Callable[[Any], bool]) -> Run:
    """`x in [constants]`, which the API server doesn't charge for."""

    def run(frame: Frame) -> Any:
        return among(operand(frame))

    return run


def alternative(left: Run, right: Run, unwrap: bool) -> Run:
    """`.or(optional)`, and with `unwrap` `.orValue(value)`; the right side is evaluated only when needed."""

    def run(frame: Frame) -> Any:
        value = left(frame)
        if not isinstance(value, Optional):
            return value
        if value.present:
            return value.value if unwrap else value
        return right(frame)

    return run
