"""Addresses that hand out credentials: what no job may call, and what NetworkPolicies close.

The table is `reserved_addresses.yaml`; this is its only reader. Addresses alone: what a name stands for is
known where it is called. A network that translates to IPv4 under a prefix of its own is known by the last 32
bits of an address alone, and only for addresses of the table.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from pathlib import Path

import yaml

_FILE = Path(__file__).parent / "reserved_addresses.yaml"

_TRANSLATED = tuple(IPv6Network(text) for text in ("::/96", "::ffff:0:0:0/96", "64:ff9b::/96"))
"""IPv4 in the last 32 bits: IPv4-compatible (RFC 4291, 2.5.5.1), IPv4-translated (RFC 2765, 2.1), NAT64
(RFC 6052, 2.1)."""
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")
"""RFC 8215: for translators with prefixes of any length within it."""
_LOCAL_NAT64_BITS = (48, 56, 64, 96)


@functools.cache
def credential_addresses() -> tuple[IPv4Address | IPv6Address, ...]:
    """The table's addresses, in its order."""
    rows = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    return tuple(ip_address(row["address"]) for row in rows)


def closed_networks(version: int) -> list[str]:
    """What a NetworkPolicy leaves out of all IPv4 (4) or IPv6 (6), as CIDRs: the table, in IPv6 also as NAT64
    writes its IPv4 addresses. IPv4-mapped addresses are IPv4 on the wire."""
    own = [f"{ip}/{ip.max_prefixlen}" for ip in credential_addresses() if ip.version == version]
    if version == 4:
        return own
    return own + [
        f"{IPv6Address(int(IPv6Address('64:ff9b::')) + int(ip))}/128"
        for ip in credential_addresses()
        if ip.version == 4
    ]


def forbidden(address: str) -> bool:
    """Whether no job may reach this IP address, by whichever of its spellings. Raises ValueError."""
    ip = ip_address(address.partition("%")[0])
    ip = (ip.ipv4_mapped if isinstance(ip, IPv6Address) else None) or ip
    if ip.is_multicast or ip.is_unspecified or _reserved(ip):
        return True
    return isinstance(ip, IPv6Address) and (
        IPv4Address(ip.packed[12:]) in credential_addresses() or any(map(_reserved, _carried(ip)))
    )


def _reserved(ip: IPv4Address | IPv6Address) -> bool:
    return ip.is_link_local or ip in credential_addresses()


def _carried(ip: IPv6Address) -> Iterator[IPv4Address]:
    """IPv4 addresses that packets to this one may end at."""
    if any(ip in network for network in _TRANSLATED):
        yield IPv4Address(ip.packed[12:])
    if ip.sixtofour is not None:
        yield ip.sixtofour
    if ip.teredo is not None:
        yield from ip.teredo
    if ip in _LOCAL_NAT64:
        for bits in _LOCAL_NAT64_BITS:
            yield _embedded(ip, bits)


def _embedded(ip: IPv6Address, bits: int) -> IPv4Address:
    """The IPv4 address after a prefix of `bits` bits; octet 8 is left out (RFC 6052, 2.2)."""
    octets = ip.packed if bits == 96 else ip.packed[:8] + ip.packed[9:]
    return IPv4Address(octets[bits // 8 : bits // 8 + 4])
