"""What reaches the server as bytes: requests that do not end or are too large, answers that are not read.

Real sockets, and the server as `gpupool serve` has it, with shorter times.
"""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import suppress
from typing import Any

import pytest

from tests.queue.api.served import HTTP_JOB, Served, port_of

JOBS = "/api/v1/gpu-jobs"
MIB = 2**20
CHECK = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Client:
    """One connection."""

    def __init__(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self._writer = reader, writer
        self._host = b"Host: localhost:%d\r\n" % port

    @classmethod
    async def connect(cls, port: int) -> Client:
        opened = socket.socket()
        opened.setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024
        )  # so that little waits in the kernel
        opened.setblocking(False)
        await asyncio.get_running_loop().sock_connect(opened, ("127.0.0.1", port))
        return cls(port, *await asyncio.open_connection(sock=opened, limit=2**26))

    async def send(self, data: bytes) -> None:
        """The requests' `Host: localhost` gets the port, without which the server does not answer to it."""
        with suppress(OSError):
            self._writer.write(data.replace(b"Host: localhost\r\n", self._host))
            await self._writer.drain()

    async def answer(self, within_s: float = 60) -> tuple[int, dict[str, str], bytes]:
        """The next answer: status, header, body. Status 0: the connection ended before its end."""
        async with asyncio.timeout(within_s):
            try:
                first, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
                body = await self.reader.readexactly(int(fields.get("content-length", "0")))
            except (asyncio.IncompleteReadError, OSError):
                return 0, {}, b""
        return int(first.split()[1]), fields, body

    async def ended(self, within_s: float) -> bool:
        """Whether the server ends the connection in time; what it still sends is read."""
        try:
            async with asyncio.timeout(within_s):
                while await self.reader.read(MIB):
                    pass
        except TimeoutError:
            return False
        except OSError:
            pass
        return True


def head(method: str, path: str, *lines: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()


def post(size: int, *lines: str) -> bytes:
    return head("POST", JOBS, "Content-Type: application/json", f"Content-Length: {size}", *lines)


def name(body: bytes) -> str:
    return str(json.loads(body)["type"]).rpartition("/")[2]


async def key(served: Served) -> str:
    return f"Authorization: {(await served.key('vision'))['Authorization']}"


def test_what_does_not_end_is_answered_and_closed_in_time(api: Any) -> None:
    async def test(served: Served) -> None:
        held = await key(served)
        unfinished = {
            "nothing": (b"", 0),
            "line breaks alone": (b"\r\n\r\n", 408),
            "half a line": (b"GET /hea", 408),
            "half a header": (head("GET", "/")[:-2] + b"X-More: x", 408),
            "half a body": (post(MIB, held) + b'"' + b"x" * 500_000, 408),
            "half a chunk": (head("POST", JOBS, held, "Transfer-Encoding: chunked") + b"ff\r\n{", 408),
            "a body that no operation reads": (head("GET", "/healthz", "Content-Length: 9"), 200),
            "after a request": (CHECK + b"GET / HTT", 200),
        }
        async with port_of(served.app, header_s=1, body_s=1, linger_s=0.5) as port:

            async def attempt(title: str, sent: bytes, status: int) -> None:
                client = await Client.connect(port)
                await client.send(sent)

                async def drip() -> None:
                    while True:
                        await asyncio.sleep(0.2)
                        await client.send(b"x" if sent.strip() else b"\r\n")

                dripping = asyncio.create_task(drip()) if sent else None
                try:
                    assert (await client.answer())[0] == status, title
                    assert await client.ended(4), title
                finally:
                    if dripping:
                        dripping.cancel()

            async with asyncio.TaskGroup() as together:
                for title, (sent, status) in unfinished.items():
                    together.create_task(attempt(title, sent, status))

    api(test, dev=False)


def test_without_a_credential_no_body_is_read(api: Any) -> None:
    async def test(served: Served) -> None:
        async with port_of(served.app) as port:
            for lines in ((), ("Expect: 100-continue",), ("X-Api-Key: gpk_wrong",)):
                client = await Client.connect(port)
                await client.send(post(MIB, *lines))
                status, fields, body = await client.answer()
                assert (status, name(body), fields["connection"]) == (401, "unauthenticated", "close")
                assert await client.ended(3)
            client = await Client.connect(port)
            await client.send(post(MIB) + b"[" * MIB)
            assert (await client.answer())[0] == 401, "one who sends all of it can still read the answer"
            await client.send(head("POST", JOBS, "Transfer-Encoding: chunked"))
            client = await Client.connect(port)
            await client.send(head("POST", f"{JOBS}/x/cancel"))
            assert (await client.answer())[0] == 401
            await client.send(CHECK)
            assert (await client.answer())[0] == 200, "a request without a body leaves the connection open"

    api(test, dev=False)


def test_bodies_come_in_any_form_that_http_has(api: Any) -> None:
    body = json.dumps(HTTP_JOB | {"request_json": "x" * 1000}).encode()
    chunks = b"".join(
        b"%x;note=1\r\n%s\r\n" % (len(part), part) for part in (body[:7], body[7:600], body[600:])
    )
    trailer = b"0\r\nX-Tenant-Id: serving\r\nX-User-Id: somebody\r\n\r\n"

    async def test(served: Served) -> None:
        held = await key(served)
        async with port_of(served.app) as port:
            client = await Client.connect(port)
            await client.send(post(len(body), held, "Expect: 100-continue"))
            assert (await client.answer())[0] == 100
            await client.send(body)
            assert (await client.answer())[0] == 201
            chunked = head("POST", JOBS, held, "Content-Type: application/json", "Transfer-Encoding: chunked")
            await client.send(chunked + chunks + trailer)
            status, _, answer = await client.answer()
            assert status == 201, answer
            assert json.loads(answer)["user_id"] == "test", "what comes after a body is no header"
            for part in (post(len(body), held) + body)[:200], (post(len(body), held) + body)[200:]:
                await client.send(part)
                await asyncio.sleep(0.05)
            assert (await client.answer())[0] == 201

            single = await Client.connect(port)
            await single.send(chunked + b"1\r\nx\r\n" * MIB)
            assert (await single.answer())[0] in (0, 413), "chunks that are mostly frames"
            assert await single.ended(5)

    api(test, dev=False)


@pytest.mark.parametrize(
    ("sent", "status", "problem"),
    [
        (head("GET", f"/{'x' * 9000}"), 431, "header-too-large"),
        (head("GET", f"/?{'x' * 300_000}"), 431, "header-too-large"),
        (head("GET", "/healthz", f"X: {'x' * 33_000}"), 431, "header-too-large"),
        (head("GET", "/healthz", *(f"X{n}: {'x' * 300}" for n in range(120))), 431, "header-too-large"),
        (head("GET", "/healthz", *(f"X{n}: 1" for n in range(101))), 431, "header-too-large"),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 50_000, 431, "header-too-large"),
        (b"\x16\x03\x01\x02\x00\x01\x00", 400, "invalid-http"),
        (b"GET / HTTP/9.9\r\n\r\n", 400, "invalid-http"),
        (head("POST", JOBS, "Content-Length: 5", "Content-Length: 6"), 400, "invalid-http"),
        (head("POST", JOBS, "Content-Length: -1"), 400, "invalid-http"),
        (head("POST", JOBS, "Content-Length: 5", "Transfer-Encoding: chunked"), 400, "invalid-http"),
        (head("GET", "/healthz", f"Cookie: {'a=b; ' * 6000}"), 200, ""),
        (head("GET", "/healthz", "Upgrade: h2c", "Connection: Upgrade"), 200, ""),
        (head("GET", "/healthz", *(f"X{n}: 1" for n in range(90))), 200, ""),
    ],
)  # fmt: skip
def test_a_header_is_bounded(api: Any, sent: bytes, status: int, problem: str) -> None:
    async def test(served: Served) -> None:
        async with port_of(served.app) as port:
            client = await Client.connect(port)
            await client.send(sent)
            answered, _, body = await client.answer()
            assert answered == status
            if problem:
                assert name(body) == problem
                assert await client.ended(4)

    api(test)


def test_requests_in_a_row_are_answered_in_order_and_bounded(api: Any) -> None:
    async def test(served: Served) -> None:
        async with port_of(served.app) as port:
            client = await Client.connect(port)
            await client.send(CHECK + head("GET", "/nothing") + CHECK)
            assert [(await client.answer())[0] for _ in range(3)] == [200, 404, 200]
            await client.send(CHECK * 8000)
            assert await client.ended(5)
            client = await Client.connect(port)
            await client.send(CHECK)
            assert (await client.answer())[0] == 200

    api(test)


def test_the_longest_unfinished_make_room_for_others(api: Any) -> None:
    async def test(served: Served) -> None:
        async with port_of(served.app, connections=30, unfinished_each=10, grace_s=0.2) as port:
            slow = [await Client.connect(port) for _ in range(30)]
            for client in slow:
                await client.send(b"GET / HT")
            await asyncio.sleep(0.3)
            for _ in range(5):
                client = await Client.connect(port)
                await client.send(CHECK)
                assert (await client.answer())[0] == 200, "who asks is answered, from the same address"
            await asyncio.sleep(1)
            ended = [await client.ended(0.02) for client in slow]
            assert 18 <= sum(ended) < 30, "of one address so many may be unfinished"
            assert not ended[-1], "the oldest go"

    api(test)


def test_who_reads_nothing_is_left(api: Any) -> None:
    async def test(served: Served) -> None:
        for number in range(4):
            await served.submit(request_json="x" * 1_000_000, job_name=str(number))
        ask = head("GET", f"{JOBS}?limit=200")
        async with port_of(served.app, unread_s=1, least_read=16 * MIB) as port:
            client = await Client.connect(port)
            client.reader._transport.pause_reading()  # type: ignore[attr-defined]
            await client.send(ask * 4)
            await asyncio.sleep(3)
            client.reader._transport.resume_reading()  # type: ignore[attr-defined]
            assert await client.ended(5)
        async with port_of(served.app, unread_s=1, least_read=1) as port:
            client = await Client.connect(port)
            await client.send(ask)
            taken = 0
            while taken < 3 * MIB:
                taken += len(await asyncio.wait_for(client.reader.read(256 * 1024), 5))
                await asyncio.sleep(0.2)

    api(test)


def test_unread_answers_are_bounded_together(api: Any) -> None:
    async def test(served: Served) -> None:
        for number in range(4):
            await served.submit(request_json="x" * 1_000_000, job_name=str(number))
        async with port_of(served.app, unsent=4 * MIB) as port:
            slow = [await Client.connect(port) for _ in range(8)]
            for client in slow:
                client.reader._transport.pause_reading()  # type: ignore[attr-defined]
                await client.send(head("GET", f"{JOBS}?limit=200") * 4)
            await asyncio.sleep(5)
            for client in slow:
                client.reader._transport.resume_reading()  # type: ignore[attr-defined]
            statuses = [(await client.answer())[0] for client in slow for _ in range(4)]
            assert 1 <= statuses.count(0) < 32

    api(test)


async def _answered(port: int) -> None:
    """Room is made once the others' answers wait to be read; until then a caller is told to come again."""
    async with asyncio.timeout(60):
        while True:
            another = await Client.connect(port)
            await another.send(CHECK)
            if (await another.answer())[0] == 200:
                return
            await asyncio.sleep(0.1)


def test_who_reads_nothing_makes_room_for_others(api: Any) -> None:
    async def test(served: Served) -> None:
        async with port_of(served.app, connections=6, grace_s=0.1, unread_s=60) as port:
            document = head("GET", "/openapi.json").replace(b"localhost", b"localhost:%d" % port)
            holding = [socket.create_connection(("127.0.0.1", port)) for _ in range(6)]
            try:
                for connection in holding:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                    connection.sendall(document * 8)
                for _ in range(5):
                    await _answered(port)
            finally:
                for connection in holding:
                    connection.close()

    api(test)
