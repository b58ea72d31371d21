"""Quantities of Kubernetes (`500m`, `1.5Gi`, `12e6`): read, compared, added and written as by the API server.

Facts: apimachinery 0.36 pkg/api/resource. A quantity is a decimal, exact. Two forms are distinguished because
the difference is visible: an int64 with an exponent, and a big decimal for what does not fit; only the first
has an integer value. Only `as_float` uses floats. This is the arithmetic; the CEL functions are in
libraries/quantities.py, and `vapcheck.server.canonical_text` reads fields of objects by it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from vapcheck.cel.errors import CelError, NoSuchOverload
from vapcheck.cel.values import Opaque

Form = Literal["DecimalSI", "BinarySI", "DecimalExponent"]
_WRONG_FORMAT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_WRONG_NUMBER = "unable to parse numeric part of quantity"
_WRONG_SUFFIX = "unable to parse quantity's suffix"
_TEXT = re.compile(
    r"(?P<sign>[+-]?)(?P<zeros>0*+)(?P<whole>[0-9]*+)(?:(?P<point>\.)(?P<fraction>[0-9]*+))?"
    r"(?P<suffix>[eEinumkKMGTP]*+[+-]?[0-9]*+)"
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_NAMES = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_NAMES = {exponent: suffix for suffix, exponent in _BINARY.items()}
_EXPONENT = re.compile(r"[+-]?[0-9]+")
_NANO = -9
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_MAX_SHIFT = 100_000
"""Digits that a quantity may have, and that aligning two may add. The API server has no limit, and hangs far
beyond this one."""

_MAX_DIGITS = 4_000
"""Digits that are turned into a number at once, or are written."""


@dataclass(frozen=True, slots=True, eq=False)
class Quantity(Opaque):
    """`mantissa * 10 ** exponent`."""

    type_name: ClassVar[str] = "kubernetes.Quantity"
    mantissa: int
    exponent: int = 0
    form: Form = "DecimalSI"
    """Which suffixes it is written with."""
    big: bool = False
    """Whether it is a big decimal, that has no integer value whatever its number is."""
    text: str = ""
    """As written, where that was canonical; else empty."""
    computed: bool = False
    """Whether it came out of `add` or `sub`; see `equals`."""

    def key(self) -> tuple[int, int]:
        """The number in lowest terms."""
        number, exponent = self.mantissa, self.exponent
        while number and number % 10 == 0:
            number, exponent = number // 10, exponent + 1
        return number, exponent if number else 0

    def equals(self, other: object) -> bool:
        """Whether it is the same number. As in the API server, a computed one can only stand on the left."""
        if not isinstance(other, Quantity) or other.computed:
            raise NoSuchOverload
        return compare(self, other) == 0

    def __str__(self) -> str:
        return self.text or _canonical(self)


def parse_quantity(text: str) -> Quantity:
    """Raises CelError with the API server's message."""
    if text == "0":
        return Quantity(0, text=text)
    match = _TEXT.fullmatch(text) if text else None
    if match is None:
        raise CelError(_WRONG_FORMAT)
    whole, fraction, suffix = match["whole"], match["fraction"] or "", match["suffix"]
    if not (whole or match["point"] or suffix):
        return _small(0, 0, "DecimalSI", "0", text, 0)
    shift, form = _suffix(suffix)
    digits = (whole or "0") + fraction
    small = _fits_int64(match, digits, shift, form, text)
    if small is not None:
        return small
    if not (match["zeros"] or whole or fraction):
        raise CelError(_WRONG_NUMBER)
    if len(digits) > _MAX_SHIFT:
        raise CelError(f"a quantity of more than {_MAX_SHIFT} digits can't be evaluated")
    number = _integer(digits) * (-1 if match["sign"] == "-" else 1)
    return _big(number, _int32(len(fraction)), shift, form)


def _integer(digits: str) -> int:
    """The number that any count of digits is; int() alone refuses those of more than 4,300."""
    if len(digits) <= _MAX_DIGITS:
        return int(digits)
    half = len(digits) // 2
    return _integer(digits[:-half]) * int(10**half) + _integer(digits[-half:])


def _suffix(suffix: str) -> tuple[int, Form]:
    """Exponent (of ten or of two) and form."""
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], "DecimalSI"
    if suffix in _BINARY:
        return _BINARY[suffix], "BinarySI"
    digits = suffix[1:]
    if suffix[0] not in "eE" or not _EXPONENT.fullmatch(digits) or len(digits) > 20:
        raise CelError(_WRONG_SUFFIX)
    if not _INT64_MIN <= int(digits) <= _INT64_MAX:
        raise CelError(_WRONG_SUFFIX)
    return _int32(int(digits)), "DecimalExponent"


def _fits_int64(match: re.Match[str], digits: str, shift: int, form: Form, text: str) -> Quantity | None:
    """The quantity in its small form, None where the API server would not take that one."""
    fraction = match["fraction"] or ""
    factor, scale = 1, shift
    if form == "BinarySI":
        if fraction:
            return None
        factor, scale = 1 << shift, 0
        precision = 15 - len(digits) - shift * 3 // 10 - 1
    else:
        precision = 18 - len(digits)
    scale = _int32(scale - len(fraction))
    if precision < 0 or scale < _NANO:
        return None
    value = int(digits)
    if value * factor > _INT64_MAX:
        return None
    signed = value * factor * (-1 if match["sign"] == "-" else 1)
    return _small(signed, scale, form, digits, text, shift if form == "BinarySI" else 0)


def _small(signed: int, scale: int, form: Form, digits: str, text: str, binary: int) -> Quantity:
    """The small form, that remembers its text when the number in it needs no other suffix."""
    if form == "BinarySI":
        keep = binary % 10 == 0 and int(digits) & 7 != 0
    else:
        keep = scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
    return Quantity(signed, scale, form, text=text if keep else "")


def _big(number: int, places: int, shift: int, form: Form) -> Quantity:
    """The big form: at most nine decimal places, rounded away from zero; capped where suffixes are binary."""
    sign, number = (-1, -number) if number < 0 else (1, number)
    exponent = -places
    if form == "BinarySI":
        number <<= shift
    else:
        exponent = -_int32(places - shift)
    if number:
        number, exponent = _rounded_up(number, exponent, _NANO), _NANO
    if form == "BinarySI":
        if _compare_numbers(number, exponent, _INT64_MAX, 0) > 0:
            number, exponent = _INT64_MAX, 0
        if number and _compare_numbers(number, exponent, 1, 0) < 0:
            form = "DecimalSI"
    return Quantity(sign * number, exponent, form, big=True)


def _rounded_up(number: int, exponent: int, to: int) -> int:
    """`number` in units of `10 ** to`, rounded away from zero."""
    if exponent >= to:
        return number * _power(exponent - to)
    low = to - exponent > number.bit_length() // 3 + 1  # then the power has more digits than the number
    size = 1 if low else -(-abs(number) // _power(to - exponent))
    return size if number > 0 else -size


def _power(exponent: int) -> int:
    if exponent > _MAX_SHIFT:
        raise CelError(f"a quantity with an exponent beyond {_MAX_SHIFT} can't be evaluated")
    return int(10**exponent)


def rounded_up(quantity: Quantity, to: int) -> Quantity:
    """In units of `10 ** to`, rounded away from zero; unchanged where its unit is not finer."""
    if not quantity.mantissa or quantity.exponent >= to:
        return quantity
    number = _rounded_up(quantity.mantissa, quantity.exponent, to)
    return replace(quantity, mantissa=number, exponent=to, text="")


def compare(left: Quantity, right: Quantity) -> int:
    """-1, 0 or 1."""
    return _compare_numbers(left.mantissa, left.exponent, right.mantissa, right.exponent)


def _compare_numbers(one: int, one_exponent: int, other: int, other_exponent: int) -> int:
    if one == 0 or other == 0 or (one > 0) != (other > 0):
        return (one > other) - (one < other)
    low = min(one_exponent, other_exponent)
    distance = abs(one_exponent - other_exponent)
    if distance > _MAX_SHIFT:  # whatever the digits are, the exponents decide
        return 1 if (one_exponent > other_exponent) == (one > 0) else -1
    one, other = one * 10 ** (one_exponent - low), other * 10 ** (other_exponent - low)
    return (one > other) - (one < other)


def add(left: Quantity, right: Quantity) -> Quantity:
    """The sum, written as the left one is unless that is zero. Raises CelError beyond the supported range."""
    form = right.form if left.mantissa == 0 else left.form
    if not left.big and not right.big:
        if right.mantissa == 0:
            return replace(left, form=form, text="", computed=True)
        if left.mantissa == 0:
            return replace(right, form=form, text="", computed=True)
    number, exponent = _sum(left, right)
    big = left.big or right.big or not _sum_is_small(left, right, number)
    return Quantity(number, exponent, form, big=big, computed=True)


def _sum(left: Quantity, right: Quantity) -> tuple[int, int]:
    exponent = min(left.exponent, right.exponent)
    number = left.mantissa * _power(left.exponent - exponent) + right.mantissa * _power(
        right.exponent - exponent
    )
    return number, exponent


def _sum_is_small(left: Quantity, right: Quantity, number: int) -> bool:
    """Whether neither the sum nor the wider of the two, in the finer unit, leaves 64 bits."""
    wide, fine = (left, right) if left.exponent > right.exponent else (right, left)
    scaled = wide.mantissa * _power(wide.exponent - fine.exponent)
    return _INT64_MIN <= scaled <= _INT64_MAX and _INT64_MIN <= number <= _INT64_MAX


def subtract(left: Quantity, right: Quantity) -> Quantity:
    """The difference. Raises CelError beyond the supported range."""
    negated = -right.mantissa
    if _negation_wraps(left, right):
        negated = right.mantissa
    return add(left, replace(right, mantissa=negated, text=""))


def _negation_wraps(left: Quantity, right: Quantity) -> bool:
    """Whether the API server treats the least int64 as its own negative, as its fast path does."""
    least = right.mantissa == _INT64_MIN and not right.big
    fast = not left.big and left.mantissa >= 0 and (left.mantissa == 0 or left.exponent >= right.exponent)
    return least and fast


def as_integer(quantity: Quantity) -> int | None:
    """The integer that it is in its small form; None where the API server finds none, as for `1000m`."""
    if quantity.big or quantity.exponent < 0:
        return None
    if quantity.mantissa == 0:
        return 0
    if quantity.exponent > 19:
        return None
    number = quantity.mantissa * int(10**quantity.exponent)
    return number if _INT64_MIN <= number <= _INT64_MAX else None


def as_float(quantity: Quantity) -> float:
    """The nearest double or about; infinite beyond the range of doubles."""
    try:
        number = float(quantity.mantissa)
    except OverflowError:
        number = float("inf") if quantity.mantissa > 0 else float("-inf")
    return number if quantity.exponent == 0 else number * float(f"1e{quantity.exponent}")


def _canonical(quantity: Quantity) -> str:
    """With the largest suffix that leaves an integer. A number with too many digits to print is described by
    its size."""
    if quantity.mantissa == 0:
        return "0"
    number, exponent = quantity.mantissa, quantity.exponent
    digits = number.bit_length() * 30_103 // 100_000 + 1
    if digits > _MAX_DIGITS:
        return f"{'-' if number < 0 else ''}(about 10^{digits + exponent})"
    if quantity.form == "BinarySI" and _compare_numbers(abs(number), exponent, 1024, 0) >= 0:
        whole = _rounded_up(number, exponent, 0)
        if _compare_numbers(whole, 0, number, exponent) == 0:
            return _binary_text(whole)
    while number % 10 == 0:
        number, exponent = number // 10, exponent + 1
    number, exponent = number * int(10 ** (exponent % 3)), exponent - exponent % 3
    if quantity.form == "DecimalExponent":
        return f"{number}e{exponent}" if exponent else str(number)
    return f"{number}{_DECIMAL_NAMES.get(exponent, '')}"


def _binary_text(number: int) -> str:
    times = 0
    while abs(number) >= 1024 and number % 1024 == 0:
        number, times = number // 1024, times + 1
    return f"{number}{_BINARY_NAMES.get(times * 10, '')}"


def _int32(number: int) -> int:
    """The lowest 32 bits, as Go converts."""
    return (number + 2**31) % 2**32 - 2**31
