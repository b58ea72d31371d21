"""Arithmetic, comparison and membership, with cel-go's overflow rules and error texts.

Facts: cel-go 0.26 common/types (int.go, uint.go, double.go, overflow.go, compare.go...). Each function
takes plain values and gives one, or raises CelError.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from vapcheck.cel.errors import CelError, NoSuchOverload
from vapcheck.cel.values import INT_MAX, INT_MIN, UINT_MAX, Duration, Timestamp, Uint, equal, to_key


def _unfit(function: str, left: Any, fitting: tuple[type, ...]) -> NoSuchOverload:
    """The error for a right operand that doesn't fit, or for a left one that the operator doesn't know."""
    known = isinstance(left, (*fitting, *RECEIVERS))
    return NoSuchOverload() if known else NoSuchOverload(f"no such overload: {function}")


def _int(value: int, *operands: int) -> int | float:
    if INT_MIN <= value <= INT_MAX:
        return value
    if any(not INT_MIN <= operand <= INT_MAX for operand in operands):
        return float(value)  # JSON numbers beyond 64 bits are doubles
    raise CelError("integer overflow")


def checked_uint(value: int) -> Uint:
    """An unsigned integer. Raises CelError beyond its 64 bits."""
    if 0 <= value <= UINT_MAX:
        return Uint(value)
    raise CelError("unsigned integer overflow")


RECEIVERS = (str, Duration, Timestamp)
"""Kinds with methods of their own, which are asked for any operator."""
_ADDABLE = (int, float, str, bytes, list, tuple, Duration, Timestamp)
_NUMBERS = (int, float)


def _json_number(value: Any) -> Any:
    """A whole number beyond 64 bits, which only JSON brings, as the double that it is for the API server."""
    if type(value) is int and not INT_MIN <= value <= INT_MAX:
        return float(value)
    return value


def _again(
    function: str, operation: Callable[[Any, Any], Any], left: Any, right: Any, fitting: tuple[type, ...]
) -> Any:
    """For operands that don't fit: try again where one of them is really a double, else raise
    NoSuchOverload."""
    one, other = _json_number(left), _json_number(right)
    if one is not left or other is not right:
        return operation(one, other)
    raise _unfit(function, left, () if type(left) is bool else fitting)


def _plain_bool(left: Any, right: Any) -> bool:
    return type(left) is bool or type(right) is bool


def add(left: Any, right: Any) -> Any:
    """`+`"""
    one, other = type(left), type(right)
    if one is other:
        if one is str or one is float or one is bytes or one is list:
            return left + right
        if one is int:
            return _int(left + right, left, right)
        if one is Uint:
            return checked_uint(int(left) + int(right))
        if one is Duration:
            return left + right
    if (one is Timestamp and other is Duration) or (one is Duration and other is Timestamp):
        return left + right
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return [*left, *right]
    return _again("_+_", add, left, right, _ADDABLE)


def subtract(left: Any, right: Any) -> Any:
    """`-` between two values."""
    one, other = type(left), type(right)
    if one is other:
        if one is int:
            return _int(left - right, left, right)
        if one is Uint:
            return checked_uint(int(left) - int(right))
        if one is float or one is Duration or one is Timestamp:
            return left - right
    if one is Timestamp and other is Duration:
        return left - right
    return _again("_-_", subtract, left, right, (*_NUMBERS, Duration, Timestamp))


def multiply(left: Any, right: Any) -> Any:
    """`*`"""
    one = type(left)
    if one is type(right):
        if one is int:
            return _int(left * right, left, right)
        if one is Uint:
            return checked_uint(int(left) * int(right))
        if one is float:
            return left * right
    return _again("_*_", multiply, left, right, _NUMBERS)


def divide(left: Any, right: Any) -> Any:
    """`/`, towards zero for integers."""
    one = type(left)
    if one is type(right):
        if one is float:
            return _divide_doubles(left, right)
        if one is int or one is Uint:
            if right == 0:
                raise CelError("division by zero")
            quotient = abs(int(left)) // abs(int(right))
            value = quotient if (left < 0) == (right < 0) else -quotient
            return _int(value, left, right) if one is int else checked_uint(value)
    return _again("_/_", divide, left, right, _NUMBERS)


def _divide_doubles(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left) or math.isnan(right):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1, right)


def modulo(left: Any, right: Any) -> Any:
    """`%`, with the sign of the left operand."""
    one = type(left)
    if one is type(right) and (one is int or one is Uint):
        if right == 0:
            raise CelError("modulus by zero")
        if one is int and left == INT_MIN and right == -1:
            raise CelError("integer overflow")
        value = abs(int(left)) % abs(int(right))
        return checked_uint(value) if one is Uint else (-value if left < 0 else value)
    raise _unfit("_%_", left, () if one is bool or one is float else _NUMBERS)


def negate(value: Any) -> Any:
    """`-` before a value."""
    if type(value) is int:
        return _int(-value, value)
    if type(value) is float:
        return -value
    if type(value) is Duration:
        return Duration(0) - value
    raise _unfit("-_", value, (bool,))


_COMPARABLE = (bool, int, float, str, bytes, Duration, Timestamp)


def compare(left: Any, right: Any, function: str) -> int:
    """-1, 0 or 1."""
    one, other = type(left), type(right)
    if one is other:
        if one is str:
            if left == right:
                return 0
            return -1 if left.encode("utf-8", "surrogatepass") < right.encode("utf-8", "surrogatepass") else 1
        if one in _COMPARABLE or one is Uint:
            if one is float and (math.isnan(left) or math.isnan(right)):
                raise CelError("NaN values cannot be ordered")
            return -1 if left < right else int(left > right)
    elif isinstance(left, _NUMBERS) and isinstance(right, _NUMBERS) and not _plain_bool(left, right):
        return _compare_numbers(_json_number(left), _json_number(right))
    raise _unfit(function, left, _COMPARABLE)


def _compare_numbers(left: float, right: float) -> int:
    if isinstance(left, float) == isinstance(right, float):
        return -1 if left < right else int(left > right)
    if isinstance(right, float):
        return -_compare_numbers(right, left)
    if math.isnan(left):
        raise CelError("NaN values cannot be ordered")
    low, high = (0, UINT_MAX) if isinstance(right, Uint) else (INT_MIN, INT_MAX)
    if left < low:
        return -1
    if left > high:
        return 1
    other = float(right)
    return -1 if left < other else int(left > other)


def less(left: Any, right: Any) -> bool:
    return compare(left, right, "_<_") < 0


def less_equal(left: Any, right: Any) -> bool:
    return compare(left, right, "_<=_") <= 0


def greater(left: Any, right: Any) -> bool:
    return compare(left, right, "_>_") > 0


def greater_equal(left: Any, right: Any) -> bool:
    return compare(left, right, "_>=_") >= 0


def contained(element: Any, container: Any) -> bool:
    """`in`: an element of a list, a key of a map."""
    if isinstance(container, (list, tuple)):
        return any(_is(element, entry) for entry in container)
    if isinstance(container, dict):
        if isinstance(element, (str, int, float)):
            return to_key(element) in container
        return False
    raise NoSuchOverload


def _is(element: Any, entry: Any) -> bool:
    """Whether the element, on the left of `==`, is the entry; an error in the comparison counts as false."""
    try:
        return equal(element, entry)
    except NoSuchOverload:
        return False


def constant_set(elements: list[Any]) -> Callable[[Any], bool] | None:
    """Membership in a list of constants, as cel-go turns it into a set; None where it keeps the list."""
    strings, others = set(), []
    for element in elements:
        if not isinstance(element, (str, int, float)):
            return None
        if type(element) is str:
            strings.add(element)
        else:
            others.append(element)

    def among(value: Any) -> bool:
        if type(value) is str:
            return value in strings
        return any(_is(value, other) for other in others)

    return among


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "_+_": add,
    "_-_": subtract,
    "_*_": multiply,
    "_/_": divide,
    "_%_": modulo,
    "_<_": less,
    "_<=_": less_equal,
    "_>_": greater,
    "_>=_": greater_equal,
    "@in": contained,
}
