"""Where a NetworkPolicy lets pods connect to: a model of the API's text, and of Cilium where that differs."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from typing import Any

Object = Mapping[str, Any]
METADATA_SERVICE = (
    "169.254.169.254", "fd00:ec2::254", "fd20:ce::254",
    "169.254.170.2", "169.254.170.23", "fd00:ec2::23", "168.63.129.16",
    "100.100.100.200", "192.0.0.192", "169.254.42.42", "fd00:42::42",
    "fd00:c1::a9fe:a9fe", "fd00:a9fe:a9fe::1", "169.254.0.23",
    "64:ff9b::169.254.169.254", "64:ff9b::168.63.129.16",
)  # fmt: skip
"""What hands out credentials, as clouds document it; a second list, so that a row that is lost is noticed."""
NODE = None
"""In place of an address: of a node, or of the API server on one; under Cilium no ipBlock matches it."""


def reaches(spec: Object, address: str | None, port: int) -> bool:
    """Whether a pod may open a TCP connection to `port` of an address outside the pods' network."""
    return any(
        _ports(rule, port) and ("to" not in rule or any(_peer(peer, address) for peer in rule["to"]))
        for rule in spec["egress"]
    )


def _ports(rule: Object, port: int) -> bool:
    """A rule without ports, or with an empty list of them, is for all."""
    return not rule.get("ports") or {"protocol": "TCP", "port": port} in rule["ports"]


def _peer(peer: Object, address: str | None) -> bool:
    if "ipBlock" not in peer or address is NODE:
        return False
    here, block = ip_address(address), peer["ipBlock"]
    return here in ip_network(block["cidr"]) and all(
        here not in ip_network(out) for out in block.get("except", ())
    )
