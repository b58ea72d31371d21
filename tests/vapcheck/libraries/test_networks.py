"""Addresses and networks, against Python's own reader where both agree on what is an address."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vapcheck.cel.errors import CelError, NoSuchOverload
from vapcheck.cel.libraries.networks import (
    OVERLOADS,
    contains_cidr,
    contains_ip,
    is_canonical,
    is_cidr,
    is_ip,
    masked,
    parse_cidr,
    parse_ip,
)

CALLS = {overload.id: overload.call for overload in OVERLOADS}


@given(st.ip_addresses())
def test_addresses_are_read_and_written(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    if getattr(address, "ipv4_mapped", None):
        assert not is_ip(str(address))
        return
    read = parse_ip(str(address))
    assert str(read) == str(address)
    assert is_canonical(str(address))
    assert CALLS["ip_family"](read) == address.version
    assert CALLS["ip_is_loopback"](read) == address.is_loopback
    assert parse_ip(address.exploded).equals(read)


@given(st.text(alphabet="0123456789abcdefx:.%/ ", max_size=24))
def test_no_text_crashes_and_none_is_taken_that_python_refuses(text: str) -> None:
    if is_ip(text):
        ipaddress.ip_address(text)
    is_cidr(text)


@given(st.ip_addresses(v=4), st.integers(0, 32), st.ip_addresses(v=4))
def test_containment(base: ipaddress.IPv4Address, length: int, other: ipaddress.IPv4Address) -> None:
    network = ipaddress.ip_network((base, length), strict=False)
    ours = parse_cidr(f"{base}/{length}")
    assert contains_ip(ours, str(other)) == (other in network)
    assert str(masked(ours)) == str(network)
    half = ipaddress.ip_network((other, min(32, length + 3)), strict=False)
    assert contains_cidr(ours, str(half)) == half.subnet_of(network)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("127.0.0.256", 'ParseAddr("127.0.0.256"): IPv4 field has value >255'),
        ("127.0.01.1", 'ParseAddr("127.0.01.1"): IPv4 field has octet with leading zero'),
        ("1.2.3.x", 'ParseAddr("1.2.3.x"): unexpected character (at "x")'),
        ("1::2::3", 'ParseAddr("1::2::3"): multiple :: in address (at ":3")'),
        ("1:2:3:4:5:6:7:8:9", 'ParseAddr("1:2:3:4:5:6:7:8:9"): trailing garbage after address (at "9")'),
        ("fe80::1%eth0", 'IP address "fe80::1%eth0" with zone value is not allowed'),
        ("::ffff:1.2.3.4", 'IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed'),
        ("nonsense", 'ParseAddr("nonsense"): unable to parse IP'),
    ],
)
def test_refusals_are_in_the_servers_words(text: str, message: str) -> None:
    with pytest.raises(CelError) as caught:
        parse_ip(text)
    assert str(caught.value).endswith(message)


def test_an_argument_that_is_no_address_loses_its_error() -> None:
    with pytest.raises(NoSuchOverload):
        contains_ip(parse_cidr("10.0.0.0/8"), "nonsense")
    with pytest.raises(CelError, match="no '/'"):
        contains_cidr(parse_cidr("10.0.0.0/8"), "nonsense")


def test_kinds_of_addresses() -> None:
    rows = {
        "ip_is_global_unicast": ("10.0.0.1", "255.255.255.255"),
        "ip_is_link_local_unicast": ("169.254.3.4", "169.253.3.4"),
        "ip_is_link_local_multicast": ("ff02::1", "ff0e::1"),
        "ip_is_unspecified": ("::", "::1"),
    }
    for id, (one, other) in rows.items():
        assert CALLS[id](parse_ip(one)), id
        assert not CALLS[id](parse_ip(other)), id
