"""What HTTP jobs and callbacks call, by real requests: an allowed origin under its own name.

Every name leads to the server here, so that a request that should not be made arrives.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gpupool.queue.roles.http_job import HttpJobs

SECONDS = 5.0


class Everywhere(dict[str, tuple[str, int]]):
    """Every name is that of one server."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._place = ("127.0.0.1", port)

    def get(self, *_: Any) -> Any:
        return self._place


class Server:
    """Answers 204 everywhere, and `away` at /away. `hosts`: whom requests were for."""

    def __init__(self) -> None:
        self.hosts: list[str] = []
        self.port = 0
        self.away = b""

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        text = await reader.readuntil(b"\r\n\r\n")
        (host,) = [line[6:] for line in text.split(b"\r\n") if line.lower().startswith(b"host:")]
        self.hosts.append(host.decode())
        away = self.away if text.split()[1] == b"/away" else b""
        writer.write(away or b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()


@asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    server = Server()
    listening = await asyncio.start_server(server.take, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    async with listening:
        yield server


def called(url: str, targets: Collection[str], away: bytes = b"") -> tuple[str | None, list[str]]:
    """The error, and whom the requests that arrived were for. PORT is the server's."""

    async def call() -> tuple[str | None, list[str]]:
        async with serving() as server:
            port = str(server.port)
            server.away = away.replace(b"PORT", port.encode())
            http = HttpJobs(lambda: [one.replace("PORT", port) for one in targets], Everywhere(server.port))
            error = await http.notify(url.replace("PORT", port), {"x": 1}, SECONDS)
            return error, [host.replace(port, "PORT") for host in server.hosts]

    return asyncio.run(call())


def test_an_allowed_origin_is_called() -> None:
    assert called("http://Lossless.TEST/x#y", ["http://lossless.test"]) == (None, ["lossless.test"])
    assert called("http://127.0.0.1:PORT/", ["http://127.0.0.1:PORT"]) == (None, ["127.0.0.1:PORT"])
    assert called("http://xn--loless-cta.test/", ["http://xn--loless-cta.test:80"])[0] is None


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://loßless.test/", "http://lossless.test"),
        ("http://\u03c2.test/", "http://xn--4xa.test"),
        ("http://a\u200db.test/", "http://ab.test"),
        ("http://lossless\u3002test/", "http://lossless.test"),
        ("http://\uff4cossless.test/", "http://lossless.test"),
        ("http://lossless.test./", "http://lossless.test"),
        ("http://lossless%2etest/", "http://lossless.test"),
        ("http://lossless.test\\@evil.test/", "http://lossless.test"),
        ("http://lossless.test:80@evil.test/", "http://lossless.test"),
        ("http://los\tsless.test/", "http://los"),
        ("http://[]@lossless.test", "http://lossless.test"),
        ("http://127.1:PORT/", "http://127.1:PORT"),
        ("http://2130706433:PORT/", "http://2130706433:PORT"),
        ("http://0x7f.1:PORT/", "http://127.0.0.1:PORT"),
        ("http://0177.0.0.1:PORT/", "http://127.0.0.1:PORT"),
        ("http://\uff11\uff12\uff17.0.0.1:PORT/", "http://127.0.0.1:PORT"),
        ("http://[::1%25lo]:PORT/", "http://[::1]:PORT"),
    ],
    ids=ascii,
)
def test_what_does_not_show_whom_it_calls_is_not_called(url: str, target: str) -> None:
    error, hosts = called(url, [target])
    assert error is not None
    assert hosts == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "location",
    [
        "http://evil.test/", "//evil.test/", "///evil.test/", "http:///evil.test/", "http://loßless.test/",
        "//loßless.test/", "//lossless.test\\@evil.test/", "//lossless.test@evil.test/", "https://lossless.test/",
        "//lossless.test:81/", "//lossless.test:0/", "//lossless.test:99999/", "HTTP://127.1:PORT/",
        "http://169.254.169.254/", "http://[::ffff:a9fe:a9fe]/", "//[]@", "ftp://lossless.test/",
    ],
    ids=ascii,
)  # fmt: skip
def test_redirects_lead_to_allowed_origins_alone(location: str, status: int) -> None:
    """Each is refused, or it is a path of the same origin; no other host gets a request."""
    away = f"HTTP/1.1 {status} Away\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    targets = ["http://lossless.test", "http://169.254.169.254", "http://[::ffff:169.254.169.254]"]
    error, hosts = called("http://lossless.test/away", targets, away.encode())
    assert set(hosts) == {"lossless.test"}
    assert error is not None or location.startswith(("///", "http:///"))


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254", "169.254.170.23", "168.63.129.16", "[fd00:ec2::23]", "[fd20:ce::254]",
        "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::1]", "[::169.254.169.254]", "[::ffff:168.63.129.16]",
    ],
)  # fmt: skip
def test_no_target_that_hands_out_credentials_is_called(address: str) -> None:
    error, _ = called(f"http://{address}:PORT/", [f"http://{address}:PORT"])
    assert "jobs may not reach" in str(error)


@pytest.mark.parametrize("bad", ["169.254.170.2", "fd00:42::42", "64:ff9b::a83f:8110", "168.63.129.16"])
def test_a_name_with_one_forbidden_address_is_not_called(bad: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answers of a name server that the caller controls, in place of the system's."""
    real = socket.getaddrinfo

    def answers(host: str, port: int, *arguments: Any, **named: Any) -> Any:
        if host != "rebinding.test":
            return real(host, port, *arguments, **named)
        family = socket.AF_INET6 if ":" in bad else socket.AF_INET
        place = (bad, port, 0, 0) if ":" in bad else (bad, port)
        return [*real("127.0.0.1", port, type=socket.SOCK_STREAM), (family, socket.SOCK_STREAM, 6, "", place)]

    async def call() -> tuple[str | None, list[str]]:
        async with serving() as server:
            target = f"http://rebinding.test:{server.port}"
            return await HttpJobs(lambda: [target]).notify(target, {}, SECONDS), server.hosts

    monkeypatch.setattr(socket, "getaddrinfo", answers)
    error, hosts = asyncio.run(call())
    assert bad in str(error)
    assert hosts == []
