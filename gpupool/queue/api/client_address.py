"""Which address a request comes from, where it came through proxies.

`X-Forwarded-For` is what anybody may write: only what a proxy that the environment file names has added to it
counts. This module must not know what the address is used for.
"""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Collection, Sequence

_MOST = 20
"""Proxies of a chain that are looked at."""


def client_address(peer: str, forwarded: Sequence[str], trusted: Collection[str]) -> str:
    """The rightmost address of `forwarded` (the values of X-Forwarded-For) that is no trusted proxy's, where
    `peer` is one of these; else `peer`. `trusted`: networks in CIDR notation."""
    networks = _networks(tuple(trusted))
    hops = ",".join(forwarded).rsplit(",", _MOST)[-_MOST:] if networks and forwarded else []
    address = peer
    while hops and _within(address, networks):
        following = _address(hops.pop())
        if following is None:
            break
        address = following
    return address


@functools.lru_cache(maxsize=8)
def _networks(trusted: tuple[str, ...]) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    return [ipaddress.ip_network(network) for network in trusted]


def _address(text: str) -> str | None:
    """One hop, without the port that some proxies add."""
    text = text.strip()
    for form in (text, text.partition("]")[0].lstrip("["), text.rpartition(":")[0]):
        try:
            return str(ipaddress.ip_address(form))
        except ValueError:
            continue
    return None


def _within(address: str, networks: Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network]) -> bool:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None) or found
    return any(mapped in network for network in networks)
