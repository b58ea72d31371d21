"""Servers of this process answer the account that runs them, whatever another one connects to."""

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
from google.protobuf import empty_pb2
from pulumi.automation import _stack as automation_stack
from pulumi.runtime.proto import language_pb2, language_pb2_grpc

from gpupool.infra.pulumi_plugins import callers, language

ANOTHER = 61_234
"""A uid that no account has."""
ATTEMPT = """
import os, sys
import grpc
from pulumi.runtime.proto import language_pb2, language_pb2_grpc

uid, port, folder = int(sys.argv[1]), sys.argv[2], sys.argv[3]
os.setgroups([]); os.setgid(uid); os.setuid(uid)
channel = grpc.insecure_channel(f"127.0.0.1:{port}")
request = language_pb2.RunRequest(
    project="gpupool", stack="local", pwd=folder, monitor_address="127.0.0.1:9", program=".",
    info=language_pb2.ProgramInfo(root_directory=folder, program_directory=folder, entry_point="."),
)
try:
    print(type(language_pb2_grpc.LanguageRuntimeStub(channel).Run(request)).__name__)
except grpc.RpcError as error:
    print(error.code().name)
"""
as_another = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another account")


@pytest.fixture
def port() -> Iterator[int]:
    """Where a language host listens."""
    server, port = language.serve()
    yield port
    server.stop(None)


def attempt(uid: int, port: int, folder: Path) -> str:
    command = [sys.executable, "-c", ATTEMPT, str(uid), str(port), str(folder)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@as_another
def test_another_account_runs_nothing(port: int, tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    (tmp_path / "__main__.py").write_text(f"open({str(proof)!r}, 'w')")
    tmp_path.chmod(0o777)
    assert attempt(ANOTHER, port, tmp_path) == "PERMISSION_DENIED"
    assert not proof.exists()


def test_this_account_is_served(port: int) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub: Any = language_pb2_grpc.LanguageRuntimeStub(channel)
        assert stub.About(empty_pb2.Empty()).executable == sys.executable


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
        assert attempt(ANOTHER, port, tmp_path) == "PERMISSION_DENIED"
        assert calls == []
        assert attempt(0, port, tmp_path) == "RunResponse"
    finally:
        server.stop(None)


def test_a_socket_in_a_folder_is_left_to_the_rights_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server of somebody else's in this process, as a test's kubelet is, goes on working."""
    monkeypatch.setattr(grpc, "server", grpc.server)
    callers.guard()

    class Host(language_pb2_grpc.LanguageRuntimeServicer):
        def About(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
            return language_pb2.AboutResponse(executable="here")

    server = grpc.server(automation_stack.futures.ThreadPoolExecutor(max_workers=1))
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(Host(), server)
    address = f"unix:{tmp_path / 'host.sock'}"
    server.add_insecure_port(address)
    server.start()
    try:
        with grpc.insecure_channel(address) as channel:
            stub: Any = language_pb2_grpc.LanguageRuntimeStub(channel)
            assert stub.About(empty_pb2.Empty()).executable == "here"
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


def test_a_server_listens_on_loopback_alone(port: int) -> None:
    listening = {
        row.laddr.port: row.laddr.ip
        for row in psutil.Process().net_connections("inet")
        if row.status == psutil.CONN_LISTEN
    }
    assert listening[port] in ("127.0.0.1", "::ffff:127.0.0.1")
