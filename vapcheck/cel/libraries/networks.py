"""The CEL libraries `ip` and `cidr`.

As in the API server, addresses with a zone and IPv4-mapped IPv6 addresses are refused
(apiserver 0.36 pkg/cel/library/ip.go, cidr.go).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import ClassVar

from vapcheck.cel.errors import CelError, NoSuchOverload
from vapcheck.cel.libraries import costs
from vapcheck.cel.libraries.addresses import Address, AddressError, parse_address
from vapcheck.cel.libraries.declaration import Overload, accepted_by, free, member
from vapcheck.cel.values import Opaque
from vapcheck.go_text import quote

_WHEN = "network address parse error during conversion from string: "


@dataclass(frozen=True, slots=True, eq=False)
class IP(Opaque):
    """An address."""

    type_name: ClassVar[str] = "net.IP"
    address: Address

    def key(self) -> Address:
        """The address itself."""
        return self.address

    def size(self) -> int:
        """Bytes of the address."""
        return self.address.bits // 8

    def __str__(self) -> str:
        return str(self.address)


@dataclass(frozen=True, slots=True, eq=False)
class CIDR(Opaque):
    """A network, perhaps with bits set behind its prefix."""

    type_name: ClassVar[str] = "net.CIDR"
    address: Address
    length: int
    """Bits of the prefix."""

    def key(self) -> tuple[Address, int]:
        """Address and prefix: networks that differ only behind the prefix are not equal."""
        return self.address, self.length

    def size(self) -> int:
        """Bytes of the prefix."""
        return math.ceil(self.length / 8)

    def __str__(self) -> str:
        return f"{self.address}/{self.length}"


def parse_ip(text: str) -> IP:
    """Raises CelError."""
    try:
        address = parse_address(text)
    except AddressError as error:
        raise CelError(
            f"IP Address {quote(text)} parse error during conversion from string: {error}"
        ) from None
    if address.zone:
        raise CelError(f"IP address {quote(text)} with zone value is not allowed")
    if address.mapped:
        raise CelError(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return IP(address)


def parse_cidr(text: str) -> CIDR:
    """Raises CelError, which says twice what went wrong when, as in the API server."""
    try:
        address, length = _prefix(text)
    except AddressError as error:
        raise CelError(f"{_WHEN}{_WHEN}netip.ParsePrefix({quote(text)}): {error}") from None
    if address.mapped:
        raise CelError(f"{_WHEN}IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return CIDR(address, length)


def _prefix(text: str) -> tuple[Address, int]:
    """Raises AddressError with the message that follows the name of the function in Go."""
    before, slash, digits = text.rpartition("/")
    if not slash:
        raise AddressError("no '/'")
    address = parse_address(before)
    if address.zone:
        raise AddressError("IPv6 zones cannot be present in a prefix")
    if not (digits.isascii() and digits.isdigit()) or (len(digits) > 1 and digits[0] == "0"):
        raise AddressError(f"bad bits after slash: {quote(digits)}")
    if len(digits) > 19 or int(digits) > 2**63 - 1:
        raise AddressError(f"bad bits after slash: {quote(digits)}")
    if int(digits) > address.bits:
        raise AddressError("prefix length out of range")
    return address, int(digits)


is_ip, is_cidr = accepted_by(parse_ip), accepted_by(parse_cidr)


def is_canonical(text: str) -> bool:
    """Whether the text is the one form of its address. Raises CelError when it is none."""
    return str(parse_ip(text)) == text


def _is_link_local_multicast(ip: IP) -> bool:
    if ip.address.bits == 32:
        return ip.address.network(24) == 0xE00000
    return ip.address.network(16) & 0xFF0F == 0xFF02


def _is_link_local_unicast(ip: IP) -> bool:
    return ip.address.plain.is_link_local


def _is_global_unicast(ip: IP) -> bool:
    plain = ip.address.plain
    broadcast = plain == IPv4Address("255.255.255.255")
    special = plain.is_unspecified or plain.is_loopback or plain.is_multicast or plain.is_link_local
    return not (broadcast or special)


def contains_ip(cidr: CIDR, ip: IP | str) -> bool:
    """Whether the address, or the one that a text stands for, is in the network.

    Raises NoSuchOverload for a text that is not an address: the API server loses the real error there.
    """
    if isinstance(ip, str):
        if not is_ip(ip):
            raise NoSuchOverload
        ip = parse_ip(ip)
    address = ip.address
    mine = cidr.address
    return mine.bits == address.bits and mine.network(cidr.length) == address.network(cidr.length)


def contains_cidr(cidr: CIDR, other: CIDR | str) -> bool:
    """Whether the whole of the other network is in this one. Raises CelError."""
    if isinstance(other, str):
        other = parse_cidr(other)
    return cidr.length <= other.length and contains_ip(cidr, IP(other.address))


def masked(cidr: CIDR) -> CIDR:
    """The network without the bits behind its prefix."""
    shift = cidr.address.bits - cidr.length
    return CIDR(Address(cidr.address.number >> shift << shift, cidr.address.bits), cidr.length)


_IP, _CIDR = IP.type_name, CIDR.type_name
OVERLOADS: tuple[Overload, ...] = (
    free("string_to_ip", "ip", ("string", _IP), parse_ip, costs.first),
    member("ip_family", "family", (_IP, "int"), lambda ip: 4 if ip.address.bits == 32 else 6),
    free("ip_is_canonical", "ip.isCanonical", ("string", "bool"), is_canonical, costs.first_twice),
    member("ip_is_unspecified", "isUnspecified", (_IP, "bool"), lambda ip: ip.address.plain.is_unspecified),
    member("ip_is_loopback", "isLoopback", (_IP, "bool"), lambda ip: ip.address.plain.is_loopback),
    member("ip_is_link_local_multicast", "isLinkLocalMulticast", (_IP, "bool"), _is_link_local_multicast),
    member("ip_is_link_local_unicast", "isLinkLocalUnicast", (_IP, "bool"), _is_link_local_unicast),
    member("ip_is_global_unicast", "isGlobalUnicast", (_IP, "bool"), _is_global_unicast),
    free("is_ip", "isIP", ("string", "bool"), is_ip, costs.first),
    free("ip_to_string", "string", (_IP, "string"), str),
    free("string_to_cidr", "cidr", ("string", _CIDR), parse_cidr, costs.first),
    member(
        "cidr_contains_ip_string",
        "containsIP",
        (_CIDR, "string", "bool"),
        contains_ip,
        costs.contains_address,
    ),
    member("cidr_contains_ip_ip", "containsIP", (_CIDR, _IP, "bool"), contains_ip, costs.contains_address),
    member(
        "cidr_contains_cidr_string",
        "containsCIDR",
        (_CIDR, "string", "bool"),
        contains_cidr,
        costs.contains_network,
    ),
    member(
        "cidr_contains_cidr", "containsCIDR", (_CIDR, _CIDR, "bool"), contains_cidr, costs.contains_network
    ),
    member("cidr_ip", "ip", (_CIDR, _IP), lambda cidr: IP(cidr.address)),
    member("cidr_prefix_length", "prefixLength", (_CIDR, "int"), lambda cidr: cidr.length),
    member("cidr_masked", "masked", (_CIDR, _CIDR), masked),
    free("is_cidr", "isCIDR", ("string", "bool"), is_cidr, costs.first),
    free("cidr_to_string", "string", (_CIDR, "string"), str),
)
