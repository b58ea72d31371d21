"""The stand-ins answer the account that runs them, whatever another one connects to, and however it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from google.protobuf import empty_pb2, struct_pb2
from pulumi.automation import _stack as automation_stack
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, provider_pb2, provider_pb2_grpc

from gpupool.pulumi_plugins import callers, language, provider

ANOTHER = 61_234
"""A uid that no account has."""
ATTEMPT = """
import os, sys
import grpc
from google.protobuf import struct_pb2
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, provider_pb2, provider_pb2_grpc

uid, kind, port, folder = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
os.setgroups([]); os.setgid(uid); os.setuid(uid)
channel = grpc.insecure_channel(f"127.0.0.1:{port}")
settings = struct_pb2.Struct()
settings.update({"kubeconfig": os.path.join(folder, "kubeconfig")})
calls = {
    "run": lambda: language_pb2_grpc.LanguageRuntimeStub(channel).Run(language_pb2.RunRequest(
        project="gpupool", stack="local", pwd=folder, monitor_address="127.0.0.1:9", program=".",
        info=language_pb2.ProgramInfo(root_directory=folder, program_directory=folder, entry_point="."),
    ), timeout=30),
    "configure": lambda: provider_pb2_grpc.ResourceProviderStub(channel).Configure(
        provider_pb2.ConfigureRequest(args=settings), timeout=30),
    "create": lambda: provider_pb2_grpc.ResourceProviderStub(channel).Create(provider_pb2.CreateRequest(
        urn="urn:pulumi:a::b::kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding::me"), timeout=30),
}
try:
    print(type(calls[kind]()).__name__)
except grpc.RpcError as error:
    print(error.code().name)
"""
as_another = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another account")


@pytest.fixture
def ports() -> Iterator[dict[str, int]]:
    servers = {"language": language.serve(), "provider": provider.serve()}
    yield {name: port for name, (_, port) in servers.items()}
    for server, _ in servers.values():
        server.stop(None)


def attempt(uid: int, kind: str, port: int, folder: Path) -> str:
    command = [sys.executable, "-c", ATTEMPT, str(uid), kind, str(port), str(folder)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


@as_another
def test_another_account_runs_nothing_and_configures_nothing(ports: dict[str, int], tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    (tmp_path / "__main__.py").write_text(f"open({str(proof)!r}, 'w')")
    tmp_path.chmod(0o777)
    assert attempt(ANOTHER, "run", ports["language"], tmp_path) == "PERMISSION_DENIED"
    assert not proof.exists()
    for kind in ("configure", "create"):
        assert attempt(ANOTHER, kind, ports["provider"], tmp_path) == "PERMISSION_DENIED"


def test_this_account_is_served(ports: dict[str, int]) -> None:
    """By the socket kind that Go takes for 127.0.0.1, and the one that gRPC's other clients may take."""
    with grpc.insecure_channel(f"127.0.0.1:{ports['provider']}") as channel:
        stub: Any = provider_pb2_grpc.ResourceProviderStub(channel)
        assert stub.GetPluginInfo(empty_pb2.Empty(), timeout=10).version == provider.VERSION
        stub.Configure(provider_pb2.ConfigureRequest(args=struct_pb2.Struct()), timeout=10)


@as_another
def test_servers_that_pulumis_library_makes_are_guarded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The inline program of `gpupool up`, as `pulumi.automation` serves it, and whatever else it serves."""
    monkeypatch.setattr(grpc, "server", grpc.server)
    callers.guard()
    calls: list[str] = []

    class Program(language_pb2_grpc.LanguageRuntimeServicer):
        def Run(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
            calls.append(request.project)
            return language_pb2.RunResponse()

    server = automation_stack.grpc.server(automation_stack.futures.ThreadPoolExecutor(max_workers=4))
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(Program(), server)
    port = server.add_insecure_port(address="127.0.0.1:0")
    server.start()
    try:
        assert attempt(ANOTHER, "run", port, tmp_path) == "PERMISSION_DENIED"
        assert calls == []
        assert attempt(0, "run", port, tmp_path) == "RunResponse"
    finally:
        server.stop(None)


CONNECT = """
import encodings.idna, os, socket, sys, time
os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as one:
    print(one.getsockname()[1], flush=True)
    one.sendall(b"x")
    if sys.argv[3] == "half":
        one.shutdown(socket.SHUT_WR)
    time.sleep(600)
"""


@as_another
@pytest.mark.parametrize("how", ["open", "half", "gone"])
def test_the_end_of_a_connection_makes_it_nobody_elses(how: str) -> None:
    """The kernel shows sockets that no process holds as root's: they are not taken for root's."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        command = [sys.executable, "-c", CONNECT, str(port), str(ANOTHER), how]
        client = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert client.stdout is not None
        peer = int(client.stdout.readline())
        connection, _ = listener.accept()
        with connection:
            assert connection.recv(1) == b"x"
            if how == "gone":
                client.send_signal(signal.SIGKILL)
                client.wait()
                time.sleep(0.1)
            assert not callers.is_ours(f"ipv4:127.0.0.1:{peer}", port)
            for look in (callers.by_diagnosis, callers.by_table):
                assert look(peer, port) in (None, ANOTHER)
        client.kill()
        client.wait()


LOOKS: dict[str, Callable[[int, int], bool]] = {
    "whole": lambda peer, port: callers.is_ours(f"ipv4:127.0.0.1:{peer}", port),
    "diagnosis": lambda peer, port: callers.by_diagnosis(peer, port) == os.geteuid(),
    "table": lambda peer, port: callers.by_table(peer, port) == os.geteuid(),
    "process": callers.by_process,
}


@pytest.mark.parametrize("look", LOOKS)
def test_each_way_knows_a_connection_of_this_account(look: str) -> None:
    """Also that the numbers of another connection, or of the listener itself, are none."""
    check = LOOKS[look]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client, socket.socket() as other:
            peer = client.getsockname()[1]
            assert check(peer, port)
            other.bind(("127.0.0.1", 0))
            for wrong in (other.getsockname()[1], port):
                assert not check(wrong, port)
            assert not check(peer, port + 1 if port < 65535 else port - 1)
        assert not check(peer, port)


@pytest.mark.parametrize("peer", ["", "unix:", "ipv4:127.0.0.2:80", "ipv6:%5B::1%5D:80", "ipv4:127.0.0.1:x"])
def test_an_address_that_is_not_one_of_ours_is_refused(peer: str) -> None:
    assert not callers.is_ours(peer, 80)


def test_servers_listen_on_loopback_alone(ports: dict[str, int]) -> None:
    listening = {
        row.laddr.port: row.laddr.ip
        for row in psutil.Process().net_connections("inet")
        if row.status == psutil.CONN_LISTEN
    }
    assert {listening[port] for port in ports.values()} <= {"127.0.0.1", "::ffff:127.0.0.1"}
