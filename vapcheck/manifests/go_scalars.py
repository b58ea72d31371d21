"""What one scalar of a YAML file means to kubectl: the resolver of Go's YAML 1.1 library, and Go's numbers.

kubectl turns YAML into JSON with `sigs.k8s.io/yaml` 1.6.0 over `go.yaml.in/yaml/v2` 2.4.3, and the server
reads that JSON. This module knows scalars only; it must not know documents or mappings.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from datetime import date
from decimal import Decimal
from typing import Any

from vapcheck.go_text import double_g, valid_utf8

_PREFIX = "tag:yaml.org,2002:"
STR, BINARY, MERGE = _PREFIX + "str", _PREFIX + "binary", _PREFIX + "merge"
_INT, _FLOAT, _BOOL, _NULL = _PREFIX + "int", _PREFIX + "float", _PREFIX + "bool", _PREFIX + "null"
_TIMESTAMP = _PREFIX + "timestamp"
_RESOLVED = {None, "", STR, _BOOL, _INT, _FLOAT, _NULL, _TIMESTAMP}
"""Tags whose scalars are parsed; scalars with any other tag are text."""

_SPELLINGS: tuple[tuple[str, Any, str], ...] = (
    (_BOOL, True, "y Y yes Yes YES true True TRUE on On ON"),
    (_BOOL, False, "n N no No NO false False FALSE off Off OFF"),
    (_NULL, None, "~ null Null NULL"),
    (_FLOAT, math.nan, ".nan .NaN .NAN"),
    (_FLOAT, math.inf, ".inf .Inf .INF +.inf +.Inf +.INF"),
    (_FLOAT, -math.inf, "-.inf -.Inf -.INF"),
)
_WORDS: dict[str, tuple[str, Any]] = {"": (_NULL, None)} | {
    word: (tag, value) for tag, value, words in _SPELLINGS for word in words.split()
}
_NUMBER_STARTS = frozenset("+-0123456789")
_FLOAT_STYLE = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_GO_INT = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))", re.ASCII)
_BINARY_INT = re.compile(r"[-+]?[01]+", re.ASCII)
_DATE = re.compile(
    r"[0-9]{4}-([0-9]{1,2})-([0-9]{1,2})"
    r"(?:([Tt ])([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:[.,][0-9]+)?(Z|[-+][0-9]{2}:[0-9]{2})?)?",
    re.ASCII,
)
_POINT_FLOAT = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?", re.ASCII)
MAX_INT, MIN_INT, MAX_UINT = 2**63 - 1, -(2**63), 2**64 - 1


class ScalarError(Exception):
    """kubectl refuses this scalar; the text says why, and `bare` does so without what is written there."""

    def __init__(self, message: str, bare: str = "") -> None:
        super().__init__(message)
        self.bare = bare or message


def resolve(tag: str | None, text: str) -> Any:
    """The value of a scalar that is plain or carries `tag`: None, bool, int, float or str.

    Raises ScalarError where the text is not what its tag says.
    """
    if tag == BINARY:
        return _from_base64(text)
    if tag not in _RESOLVED:
        return text
    if tag == STR:
        return text
    found, value = _resolve(tag, text)
    if not tag or tag == found:
        return value
    if tag == _FLOAT and found == _INT and MIN_INT <= value <= MAX_INT:
        return float(value)
    short = found.removeprefix(_PREFIX), tag.removeprefix(_PREFIX)
    raise ScalarError(
        f"cannot decode !!{short[0]} `{text}` as a !!{short[1]}",
        f"cannot decode a !!{short[0]} as a !!{short[1]}",
    )


def _resolve(tag: str | None, text: str) -> tuple[str, Any]:
    """Tag and value that Go's resolver finds in `text`."""
    word = _WORDS.get(text)
    if word is not None:
        return word
    first = text[0]
    if first == ".":
        number = _parse_float(text) if _POINT_FLOAT.fullmatch(text) else None
        return (STR, text) if number is None else (_FLOAT, number)
    if first not in _NUMBER_STARTS:
        return STR, text
    if tag in (None, "", _TIMESTAMP) and is_timestamp(text):
        return _TIMESTAMP, text
    return _resolve_number(text)


def _resolve_number(text: str) -> tuple[str, Any]:
    plain = text.replace("_", "")
    value = _parse_int(plain)
    if value is not None:
        return _INT, value
    if _FLOAT_STYLE.fullmatch(plain):
        number = _parse_float(plain)
        if number is not None:
            return _FLOAT, number
    # Go's ParseInt knows 0b too, so these see only what it refused: a second sign, as in 0b-11.
    for prefix, sign in (("0b", ""), ("-0b", "-")):
        if plain.startswith(prefix):
            digits = sign + plain.removeprefix(prefix)
            if _BINARY_INT.fullmatch(digits) and MIN_INT <= int(digits, 2) <= MAX_UINT:
                return _INT, int(digits, 2)
    return STR, text


def _parse_int(text: str) -> int | None:
    """As Go's strconv.ParseInt(text, 0, 64), and then ParseUint for what is too large."""
    match = _GO_INT.fullmatch(text)
    if match is None:
        return None
    sign, hexadecimal, binary, octal, decimal = match.groups()
    digits, base = next(
        (found, base)
        for found, base in ((hexadecimal, 16), (binary, 2), (octal, 8), (decimal, 10))
        if found is not None
    )
    if len(digits.lstrip("0")) > 64:  # more than any 64 bit number, and Python refuses very long ones
        return None
    value = int(sign + digits, base)
    if MIN_INT <= value <= MAX_INT or (not sign and value <= MAX_UINT):
        return value
    return None


def _parse_float(text: str) -> float | None:
    """As Go's ParseFloat for decimal text: a number too large is none (and so stays text)."""
    value = float(text)
    return None if math.isinf(value) else value


def is_timestamp(text: str) -> bool:
    """Whether Go's library takes `text` for a point in time. It stays text, but its tag is another."""
    match = _DATE.fullmatch(text)
    if match is None:
        return False
    month, day, between, hour, minute, second, zone = match.groups()
    try:
        date(int(text[:4]) or 4, int(month), int(day))  # Go's calendar has a year 0, which is a leap year
    except ValueError:
        return False
    if between is None:
        return True
    if int(hour) > 23 or int(minute) > 59 or int(second) > 59:
        return False
    if between == " ":
        return zone is None
    if zone is None:
        return False
    return zone == "Z" or (int(zone[1:3]) <= 24 and int(zone[4:6]) < 60)


def _from_base64(text: str) -> str:
    """The text in a !!binary scalar; bytes that are not UTF-8 become U+FFFD, as in Go's JSON."""
    compact = text.replace("\r", "").replace("\n", "")
    try:
        if len(compact) % 4:
            raise binascii.Error
        return valid_utf8(base64.b64decode(compact, validate=True))
    except (binascii.Error, ValueError) as error:
        raise ScalarError("!!binary value contains invalid base64 data") from error


def as_sent(value: Any) -> Any:
    """A resolved scalar as it arrives at the server, which reads numbers from JSON text.

    Go writes a whole float without a point, so 1.0 and 1e3 arrive as integers; an integer over 64 bits
    arrives as a float. Raises ScalarError for numbers that JSON doesn't have.
    """
    if value.__class__ is float:
        if math.isnan(value) or math.isinf(value):
            name = "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")
            raise ScalarError(f"json: unsupported value: {name}")
        if value.is_integer() and abs(value) < 1e19:
            whole = int(Decimal(repr(value)))  # Go writes the shortest digits and fills up with zeros
            return whole if MIN_INT <= whole <= MAX_INT else value
        return value
    if value.__class__ is int and not MIN_INT <= value <= MAX_INT:
        return float(value)
    return value


def key_text(value: Any) -> str:
    """A resolved scalar as the key of a JSON object. Raises ScalarError for null and huge integers."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value <= MAX_INT:
        return str(value)
    if isinstance(value, float):
        return _float_key(value)
    shown = "null" if value is None else str(value)
    raise ScalarError(f"{shown} can't be a key of an object", "this can't be a key of an object")


def _float_key(value: float) -> str:
    """As Go's FormatFloat(value, 'g', -1, 32): the shortest digits that name the same 32 bit float."""
    if math.isnan(value):
        return ".nan"
    try:
        single = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        single = math.copysign(math.inf, value)
    if math.isinf(single):
        return ".inf" if single > 0 else "-.inf"
    for digits in range(9):
        shown = float(f"{single:.{digits}e}")
        if struct.unpack("f", struct.pack("f", shown))[0] == single:
            break
    return double_g(shown)
