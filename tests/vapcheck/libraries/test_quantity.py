"""Quantities: exact decimals, with the limits that apimachinery's resource.Quantity has."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vapcheck.cel.errors import CelError, NoSuchOverload
from vapcheck.cel.libraries.quantities import is_quantity, sign, to_integer
from vapcheck.cel.quantity import (
    Quantity,
    add,
    as_float,
    as_integer,
    compare,
    parse_quantity,
    subtract,
)

SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "G": Fraction(10**9),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Pi": Fraction(2**50),
    "e3": Fraction(1000),
    "E-2": Fraction(1, 100),
}


def value(quantity: Quantity) -> Fraction:
    return quantity.mantissa * Fraction(10) ** quantity.exponent


@st.composite
def written(draw: st.DrawFn) -> tuple[str, Fraction]:
    """A text within all limits and the number that it stands for."""
    suffix = draw(st.sampled_from(sorted(SUFFIXES)))
    whole = draw(st.integers(-999, 999))
    places = draw(st.integers(0, 999)) if suffix not in ("n", "u", "m") else 0
    text = f"{whole}.{places:03}{suffix}"
    number = abs(whole) + Fraction(places, 1000)
    return text, (number if not text.startswith("-") else -number) * SUFFIXES[suffix]


@given(written())
def test_is_the_number_that_is_written(pair: tuple[str, Fraction]) -> None:
    text, number = pair
    assert value(parse_quantity(text)) == number


@given(written())
def test_canonical_text_is_the_same_number(pair: tuple[str, Fraction]) -> None:
    text, number = pair
    again = parse_quantity(str(parse_quantity(text)))
    assert value(again) == number
    assert str(again) == str(parse_quantity(text))


@given(written(), written())
def test_arithmetic_is_exact(one: tuple[str, Fraction], other: tuple[str, Fraction]) -> None:
    left, right = parse_quantity(one[0]), parse_quantity(other[0])
    assert value(add(left, right)) == one[1] + other[1]
    assert value(subtract(left, right)) == one[1] - other[1]
    assert compare(left, right) == (one[1] > other[1]) - (one[1] < other[1])
    assert compare(subtract(add(left, right), right), left) == 0


@given(written())
def test_integers_are_what_they_say(pair: tuple[str, Fraction]) -> None:
    number = as_integer(parse_quantity(pair[0]))
    assert number is None or number == pair[1]


@given(st.text(alphabet="0123456789.+-eEinumkKMGTP ", max_size=12))
def test_no_text_crashes(text: str) -> None:
    if is_quantity(text):
        str(parse_quantity(text))


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1.5", "1500m"),
        ("1.5Gi", "1536Mi"),
        ("1000m", "1"),
        ("0.1m", "100u"),
        ("1e3", "1e3"),
        ("12e-1", "1200e-3"),
        ("1024Ki", "1Mi"),
        ("0.5Ki", "512"),
        ("1500Ki", "1500Ki"),
        ("0", "0"),
        ("0.0000000001", "1n"),
        ("9999999999999999999Ki", "9223372036854775807"),
    ],
)
def test_canonical_form(text: str, canonical: str) -> None:
    """Examples from the documentation of resource.Quantity, and its caps."""
    assert str(parse_quantity(text)) == canonical


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "quantities must match the regular expression"),
        ("1,3", "quantities must match the regular expression"),
        ("1.2.3", "quantities must match the regular expression"),
        ("200K", "unable to parse quantity's suffix"),
        ("1e", "unable to parse quantity's suffix"),
        ("1e99999999999999999999", "unable to parse quantity's suffix"),
    ],
)
def test_wrong_texts(text: str, message: str) -> None:
    with pytest.raises(CelError, match=message):
        parse_quantity(text)


def test_only_the_small_form_has_an_integer() -> None:
    assert to_integer(parse_quantity("2k")) == 2000
    for text in ("1000m", "1.5", "9223372036854775808", "10Ei", "1e400"):
        with pytest.raises(CelError, match="cannot convert value to integer"):
            to_integer(parse_quantity(text))


def test_extremes_end_at_once() -> None:
    huge = parse_quantity("1e2000000000")
    assert as_float(huge) == float("inf")
    assert compare(huge, parse_quantity("1")) == 1
    assert compare(parse_quantity("-1e2000000000"), huge) == -1
    with pytest.raises(CelError, match="exponent"):
        add(huge, parse_quantity("1"))
    with pytest.raises(CelError, match="regular expression"):
        parse_quantity("0" * 100_000 + "x")


def test_a_computed_quantity_can_only_be_compared_from_the_left() -> None:
    """The API server's own oddity (apiserver 0.36 pkg/cel/quantity.go: add and sub return pointers)."""
    two = parse_quantity("2")
    total = add(parse_quantity("1"), parse_quantity("1"))
    assert total.equals(two)
    with pytest.raises(NoSuchOverload):
        two.equals(total)


def test_the_least_integer_is_its_own_negative() -> None:
    """As in Go, where negating it wraps; only on the path of the small form."""
    least = Quantity(-(2**63))
    assert value(subtract(parse_quantity("0"), least)) == -(2**63)
    assert value(subtract(parse_quantity("-1"), least)) == 2**63 - 1


def test_sign() -> None:
    assert [sign(parse_quantity(text)) for text in ("-1m", "0", "1Ki")] == [-1, 0, 1]


@pytest.mark.parametrize("suffix", ["", "m", "Ki", "e3"])
@pytest.mark.parametrize("digits", ["9" * 4_301, "1" + "0" * 20_000, "0." + "3" * 5_000, "-" + "7" * 9_000])
def test_as_many_digits_as_there_are(digits: str, suffix: str) -> None:
    """More than Python's int() reads or str() writes; the server takes them, and caps those with Ki."""
    quantity = parse_quantity(digits + suffix)
    assert sign(quantity) == (-1 if digits.startswith("-") else 1)
    assert compare(quantity, parse_quantity("1" + suffix)) == (-1 if digits[0] in "-0" else 1)
    assert compare(add(quantity, quantity), quantity) == (-1 if digits.startswith("-") else 1)
    assert len(str(quantity)) < 5_000
    as_float(quantity)
    to_nearest = subtract(quantity, quantity)
    assert sign(to_nearest) == 0


@pytest.mark.parametrize("digits", ["9" * 3_000_000, "0." + "3" * 3_000_000])
def test_beyond_all_sense(digits: str) -> None:
    with pytest.raises(CelError, match="can't be evaluated"):
        parse_quantity(digits)
