"""IP addresses as Go's net/netip reads and writes them (go1.26), with its messages.

Python's `ipaddress` only writes them: it accepts other texts, and errors must have Go's wording.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from vapcheck.go_text import quote

_HEX = re.compile(r"[0-9a-fA-F]*")


class AddressError(Exception):
    """A text that is not an address; `str()` is Go's message."""


def _wrong(text: str, message: str, at: str = "") -> AddressError:
    return AddressError(f"ParseAddr({quote(text)}): {message}" + (f" (at {quote(at)})" if at else ""))


@dataclass(frozen=True, slots=True)
class Address:
    """An IPv4 or IPv6 address."""

    number: int
    bits: int
    """32 or 128."""
    zone: str = ""

    @property
    def mapped(self) -> bool:
        """Whether it is an IPv4-mapped IPv6 address (`::ffff:1.2.3.4`)."""
        return self.bits == 128 and self.number >> 32 == 0xFFFF

    def network(self, length: int) -> int:
        """Its first `length` bits as a number."""
        return self.number >> (self.bits - length)

    @property
    def plain(self) -> IPv4Address | IPv6Address:
        """As the standard library has it, without the zone."""
        return IPv4Address(self.number) if self.bits == 32 else IPv6Address(self.number)

    def __str__(self) -> str:
        zone = f"%{self.zone}" if self.zone else ""
        if self.mapped:
            return f"::ffff:{IPv4Address(self.number & 0xFFFFFFFF)}{zone}"
        return f"{self.plain}{zone}"


def parse_address(text: str) -> Address:
    """An address, perhaps with a zone. Raises AddressError."""
    for char in text:
        if char == ".":
            return Address(_ipv4(text, text), 32)
        if char == ":":
            return _ipv6(text)
        if char == "%":
            raise _wrong(text, "missing IPv6 address")
    raise _wrong(text, "unable to parse IP")


def _ipv4(text: str, part: str) -> int:
    """The number of a dotted address, which is `part` of `text`."""
    fields: list[int] = []
    value = digits = 0
    for index, char in enumerate(part):
        if "0" <= char <= "9":
            if digits == 1 and value == 0:
                raise _wrong(text, "IPv4 field has octet with leading zero")
            value, digits = value * 10 + int(char), digits + 1
            if value > 255:
                raise _wrong(text, "IPv4 field has value >255")
        elif char == ".":
            if index in (0, len(part) - 1) or part[index - 1] == ".":
                raise _wrong(text, "IPv4 field must have at least one digit", part[index:])
            if len(fields) == 3:
                raise _wrong(text, "IPv4 address too long")
            fields.append(value)
            value = digits = 0
        else:
            raise _wrong(text, "unexpected character", part[index:])
    if len(fields) < 3:
        raise _wrong(text, "IPv4 address too short")
    return int.from_bytes(bytes([*fields, value]), "big")


def _ipv6(text: str) -> Address:
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        raise _wrong(text, "zone must be a non-empty string")
    groups: list[int] = []
    gap = -1
    if rest.startswith("::"):
        gap, rest = 0, rest[2:]
        if not rest:
            return Address(0, 128, zone)
    while len(groups) < 8:
        match = _HEX.match(rest)
        length = match.end() if match else 0
        _check_group(text, rest, length)
        if rest[length : length + 1] == ".":
            groups += _embedded(text, rest, len(groups), gap)
            rest = ""
            break
        groups.append(int(rest[:length], 16))
        rest = rest[length:]
        if not rest:
            break
        rest = _after_colon(text, rest)
        if rest.startswith(":"):
            if gap >= 0:
                raise _wrong(text, "multiple :: in address", rest)
            gap, rest = len(groups), rest[1:]
            if not rest:
                break
    if rest:
        raise _wrong(text, "trailing garbage after address", rest)
    return Address(_filled(text, groups, gap), 128, zone)


def _check_group(text: str, rest: str, length: int) -> None:
    if length > 4:
        raise _wrong(text, "each group must have 4 or less digits", rest)
    if length == 0:
        raise _wrong(text, "each colon-separated field must have at least one digit", rest)


def _after_colon(text: str, rest: str) -> str:
    if rest[0] != ":":
        raise _wrong(text, "unexpected character, want colon", rest)
    if len(rest) == 1:
        raise _wrong(text, "colon must be followed by more characters", rest)
    return rest[1:]


def _embedded(text: str, rest: str, groups: int, gap: int) -> list[int]:
    """The two groups that a dotted address at the end stands for."""
    if gap < 0 and groups != 6:
        raise _wrong(text, "embedded IPv4 address must replace the final 2 fields of the address", rest)
    if groups + 2 > 8:
        raise _wrong(text, "too many hex fields to fit an embedded IPv4 at the end of the address", rest)
    number = _ipv4(text, rest)
    return [number >> 16, number & 0xFFFF]


def _filled(text: str, groups: list[int], gap: int) -> int:
    missing = 8 - len(groups)
    if missing and gap < 0:
        raise _wrong(text, "address string too short")
    if not missing and gap >= 0:
        raise _wrong(text, "the :: must expand to at least one field of zeros")
    if missing:
        groups = groups[:gap] + [0] * missing + groups[gap:]
    number = 0
    for group in groups:
        number = number << 16 | group
    return number
