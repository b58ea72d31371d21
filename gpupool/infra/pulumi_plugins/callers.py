"""Who calls a gRPC server of this process: its own account alone, as the kernel knows it.

Pulumi's engine reaches plugins that it did not start, inline programs and receivers of events at a bare port
of 127.0.0.1, in plain text and without metadata (pulumi 3.259, sdk/go/common/resource/plugin, `dialPlugin`;
only port numbers are read from PULUMI_DEBUG_PROVIDERS and PULUMI_DEBUG_LANGUAGES). So neither a socket in a
folder nor a token is possible, and each RPC asks whose socket is at the other end of its connection. It does
not tell processes of one account apart. The engine's own servers live as long as a run, and are Pulumi's.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import psutil

ADDRESS = "127.0.0.1"
"""The only one that servers of this process listen on."""
_UNIX = "unix:"
"""How gRPC begins the address and the peer of a Unix socket that is a file (grpc, doc/naming.md)."""
_PEER = re.compile(r"ipv4:127\.0\.0\.1:(\d+)")
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_TRIES = 3
"""The kernel's tables are read in pieces, and a row may be missed while others come and go."""
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, _ESTABLISHED = 4, 20, 1, 1
"""linux/netlink.h, linux/sock_diag.h, net/tcp_states.h."""
_ANY = 0xFFFFFFFF
"""All states; no cookie."""
_unguarded = grpc.server


def guard() -> None:
    """From now on every gRPC server of this process, Pulumi's own included, answers this account alone."""
    grpc.server = server


def server(*arguments: Any, **options: Any) -> grpc.Server:
    """`grpc.server` that answers calls over 127.0.0.1 by this account alone; others get PERMISSION_DENIED.

    A Unix socket is left to the rights of its folder, which the kernel holds.
    """
    gate = _Gate()
    options["interceptors"] = [gate, *(options.get("interceptors") or ())]
    guarded = _unguarded(*arguments, **options)
    listen = guarded.add_insecure_port

    def add_insecure_port(address: str) -> int:
        bound: int = listen(address)
        if not address.startswith(_UNIX):
            gate.port = bound
        return bound

    guarded.add_insecure_port = add_insecure_port
    return guarded


class _Gate(grpc.ServerInterceptor):  # type: ignore[misc]
    """Asks before each RPC: the number of a connection that has ended may soon be another account's."""

    port = 0
    """Where the server listens; 0 where it does so on no port."""

    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        handler = continuation(details)
        if handler is None:
            return None
        kind = f"{_count(handler.request_streaming)}_{_count(handler.response_streaming)}"
        serve = getattr(handler, kind)

        def checked(request: Any, context: grpc.ServicerContext) -> Any:
            peer = context.peer()
            if not peer.startswith(_UNIX) and not is_ours(peer, self.port):
                context.abort(grpc.StatusCode.PERMISSION_DENIED, "only for the account that runs this")
            return serve(request, context)

        return handler._replace(**{kind: checked})


def _count(streaming: bool) -> str:
    return "stream" if streaming else "unary"


def is_ours(peer: str, port: int) -> bool:
    """Whether `peer`, as gRPC writes it, is the open end of a connection to `port` that this account made."""
    known = _PEER.fullmatch(peer)
    if known is None:
        return False
    ends = int(known[1]), port
    if not Path(_TABLES[0]).exists():
        return by_process(*ends)
    # The tables say it too where the kernel lacks the module tcp_diag, a hundred times slower.
    owner = by_diagnosis(*ends)
    for attempt in range(_TRIES if owner is None else 0):
        time.sleep(0.01 * attempt)
        owner = by_table(*ends)
        if owner is not None:
            break
    return owner == os.geteuid()


def by_diagnosis(peer: int, port: int) -> int | None:
    """The account that made the socket of `peer`, from the kernel (sock_diag(7)); None where it knows none.

    Only an established one that a process holds counts, here and in the tables: of others the kernel may say
    that they are root's.
    """
    address = socket.inet_aton(ADDRESS)
    ends = struct.pack("!HH16s16s", peer, port, address, address)
    family = (socket.AF_INET, socket.IPPROTO_TCP, 0, 0)
    head = struct.pack("=IHHIIBBBBI", 72, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 0, 0, *family, _ANY)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _NETLINK_SOCK_DIAG) as kernel:
            kernel.settimeout(5)
            kernel.send(head + ends + struct.pack("=III", 0, _ANY, _ANY))
            answer = kernel.recv(4096)
    except OSError:
        return None
    if struct.unpack_from("=H", answer, 4)[0] != _SOCK_DIAG_BY_FAMILY or len(answer) < 88:
        return None
    state, owner, inode = answer[17], *struct.unpack_from("=II", answer, 80)
    same = answer[20:24] == ends[:4]
    return owner if same and state == _ESTABLISHED and inode else None


def by_table(peer: int, port: int) -> int | None:
    """The same from /proc/net/tcp (proc(5))."""
    address = f"{int.from_bytes(socket.inet_aton(ADDRESS), sys.byteorder):08X}"
    end = rf"(?:[0F]{{24}})?{address}"
    row = re.compile(rf": {end}:{peer:04X} {end}:{port:04X} 01 \S+ \S+ \S+ +(\d+) +\d+ +[1-9]")
    for table in _TABLES:
        with suppress(FileNotFoundError):  # a system without IPv6
            owner = row.search(Path(table).read_text())
            if owner is not None:
                return int(owner[1])
    return None


def by_process(peer: int, port: int) -> bool:
    """Whether a process of this account has it open, for systems without /proc/net/tcp."""
    account = psutil.Process().uids()
    ends = ((ADDRESS, peer), (ADDRESS, port), psutil.CONN_ESTABLISHED)
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.uids() == account:
                for connection in process.net_connections("tcp4"):
                    if (connection.laddr, connection.raddr, connection.status) == ends:
                        return True
    return False
