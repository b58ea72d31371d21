"""The CEL library `quantity` (apiserver 0.36 pkg/cel/library/quantity.go)."""

from __future__ import annotations

from vapcheck.cel.errors import CelError
from vapcheck.cel.libraries import costs
from vapcheck.cel.libraries.declaration import Overload, accepted_by, free, member
from vapcheck.cel.quantity import (
    Quantity,
    add,
    as_float,
    as_integer,
    compare,
    parse_quantity,
    subtract,
)

is_quantity = accepted_by(parse_quantity)


def sign(quantity: Quantity) -> int:
    """-1, 0 or 1."""
    return (quantity.mantissa > 0) - (quantity.mantissa < 0)


def to_integer(quantity: Quantity) -> int:
    """Raises CelError where it is not a 64 bit integer."""
    number = as_integer(quantity)
    if number is None:
        raise CelError("cannot convert value to integer")
    return number


def _of(number: int) -> Quantity:
    return Quantity(number, form="DecimalExponent")


_TYPE = Quantity.type_name
_PAIR = (_TYPE, _TYPE)
OVERLOADS: tuple[Overload, ...] = (
    free("string_to_quantity", "quantity", ("string", _TYPE), parse_quantity, costs.first),
    free("is_quantity_string", "isQuantity", ("string", "bool"), is_quantity, costs.first),
    free("quantity_sign", "sign", (_TYPE, "int"), sign),
    member("quantity_is_greater_than", "isGreaterThan", (*_PAIR, "bool"), lambda a, b: compare(a, b) > 0),
    member("quantity_is_less_than", "isLessThan", (*_PAIR, "bool"), lambda a, b: compare(a, b) < 0),
    member("quantity_compare_to", "compareTo", (*_PAIR, "int"), compare),
    member("quantity_get_float", "asApproximateFloat", (_TYPE, "double"), as_float),
    member("quantity_get_int", "asInteger", (_TYPE, "int"), to_integer),
    member(
        "quantity_is_integer", "isInteger", (_TYPE, "bool"), lambda quantity: as_integer(quantity) is not None
    ),
    member("quantity_add", "add", (*_PAIR, _TYPE), add),
    member("quantity_add_int", "add", (_TYPE, "int", _TYPE), lambda a, n: add(a, _of(n))),
    member("quantity_sub", "sub", (*_PAIR, _TYPE), subtract),
    member("quantity_sub_int", "sub", (_TYPE, "int", _TYPE), lambda a, n: subtract(a, _of(n))),
)
