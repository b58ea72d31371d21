"""Ports are free when they are chosen, and stay so until what they are chosen for listens."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from gpupool.local import ports
from gpupool.local.ports import free_port, free_ports

_CHOOSE = """
import sys
from gpupool.local.ports import free_ports
print(free_ports({"one": int(sys.argv[1])})["one"])
"""


def elsewhere(wanted: int) -> int:
    """The port that another process is given, which would like `wanted`."""
    done = subprocess.run(
        [sys.executable, "-c", _CHOOSE, str(wanted)], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def test_a_port_is_not_given_twice_before_its_component_listens() -> None:
    port = free_port()
    assert elsewhere(port) != port
    assert free_ports({"api": port}) == {"api": port}, "who has it keeps it, so that kubeconfigs stay good"
    with socket.create_server(("127.0.0.1", port)):
        assert free_ports({"api": port})["api"] != port
        assert elsewhere(port) != port


def test_ports_of_one_instance_differ() -> None:
    port = free_port()
    chosen = free_ports({"api": port, "etcd": port, "kubelet": 0})
    assert chosen["api"] == port
    assert len(set(chosen.values())) == 3


def test_a_process_keeps_those_that_it_chose_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_KEPT", 1)
    monkeypatch.setattr(ports, "_reserved", {})
    first, second = free_port(), free_port()
    assert elsewhere(first) == first
    assert elsewhere(second) != second
