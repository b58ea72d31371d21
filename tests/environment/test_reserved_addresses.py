"""Addresses that no job may call, by all their spellings; the table has sources."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_network
from pathlib import Path

import pytest
import yaml

from gpupool.environment import reserved_addresses, shipped
from gpupool.environment.reserved_addresses import closed_networks, credential_addresses, forbidden
from tests.egress import METADATA_SERVICE

V4 = [IPv4Address(one) for one in METADATA_SERVICE if ":" not in one]


def nat64(bits: int, ip: IPv4Address) -> IPv6Address:
    """RFC 6052, 2.2: octet 8 is zero, and is left out."""
    octets = bytearray(16)
    octets[:6] = bytes.fromhex("0064ff9b0001")
    places = [place for place in range(bits // 8, 16) if place != 8 or bits == 96][:4]
    for place, octet in zip(places, ip.packed, strict=True):
        octets[place] = octet
    return IPv6Address(bytes(octets))


def spellings(ip: IPv4Address) -> list[str]:
    a, b = ip.packed[:2].hex(), ip.packed[2:].hex()
    inverted = IPv4Address(int(ip) ^ 0xFFFFFFFF)
    return [
        str(ip), f"::ffff:{ip}", f"::FFFF:{a}:{b}", f"0:0:0:0:0:ffff:{ip}", f"::{ip}", f"::ffff:0:{ip}",
        f"64:ff9b::{ip}", f"64:ff9b:1::{ip}", f"2002:{a}:{b}::1", f"2001:0:{a}:{b}::",
        f"2001::{inverted}", f"2001:db8::5efe:{ip}", f"2001:db8:64::{ip}",
        *(str(nat64(bits, ip)) for bits in (48, 56, 64, 96)),
    ]  # fmt: skip


@pytest.mark.parametrize("ip", V4, ids=str)
def test_no_spelling_of_an_ipv4_address_is_let_through(ip: IPv4Address) -> None:
    assert [text for text in spellings(ip) if not forbidden(text)] == []


@pytest.mark.parametrize(
    "address",
    [
        *METADATA_SERVICE, "FD00:0EC2:0::0254", "fe80::1", "fe80::1%eth0", "fe80::a9fe:a9fe", "169.254.1.2",
        "64:ff9b::169.254.1.2", "0.0.0.0", "::", "::ffff:0.0.0.0", "224.0.0.1", "ff02::1",
    ],
)  # fmt: skip
def test_addresses_that_no_job_may_reach(address: str) -> None:
    assert forbidden(address)


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1", "127.0.0.1", "::1", "93.184.216.34", "192.168.1.1", "100.64.0.1", "172.16.0.1", "fd00::1",
        "fd00:ec2::253", "2001:db8::1", "64:ff9b::8.8.8.8", "64:ff9b:1::8.8.8.8", "::ffff:10.0.0.1",
        "2002:a00:1::1",
        str(nat64(48, IPv4Address("8.8.8.8"))), str(nat64(64, IPv4Address("10.1.2.3"))),
    ],
)  # fmt: skip
def test_addresses_that_jobs_may_reach(address: str) -> None:
    """Services of the cluster, of this machine, and of the internet, also by NAT64."""
    assert not forbidden(address)


def test_the_table_has_sources_and_each_address_once() -> None:
    path = Path(reserved_addresses.__file__).with_suffix(".yaml")
    rows = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert all(row.keys() == {"address", "of", "source"} for row in rows)
    assert len({row["address"] for row in rows}) == len(rows)


def test_network_policies_may_leave_out_what_is_closed() -> None:
    """An `except` must be within its CIDR, and be written in the one way that the API server takes."""
    for version, every in ((4, "0.0.0.0/0"), (6, "::/0")):
        for text in closed_networks(version):
            assert ip_network(text).subnet_of(ip_network(every))  # type: ignore[arg-type]
            assert str(ip_network(text)) == text


def test_the_policy_on_external_ips_has_the_table() -> None:
    """No parameter brings it: a policy also holds where nothing was generated."""
    path = shipped.folder("policies") / "services-stay-inside.yaml"
    policy = next(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    (text,) = (row["expression"] for row in policy["spec"]["variables"] if row["name"] == "reserved")
    assert yaml.safe_load(text) == [str(ip) for ip in credential_addresses()]
