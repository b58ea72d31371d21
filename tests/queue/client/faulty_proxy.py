"""A proxy before the queue that does what networks, ingresses and restarts do to one request each.

It sends each request on by a connection of its own, and closes the client's after the answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct
from collections import deque
from dataclasses import dataclass, field

HTML = "<html><body>upstream\x1b[2J</body></html>"
SILENT = ("stalls before", "stalls after")
"""Nothing comes, and the connection stays."""
FAULTS = (
    "resets at once",
    "resets after the request",
    "resets after the effect",
    "resets within the header",
    "resets within the body",
    "ends within the body",
    "ends within a body of unknown length",
    "408", "429", "502", "503", "504",
    "504 after the effect",
    *SILENT,
)  # fmt: skip


@dataclass
class Proxy:
    """`faults` are those of the next requests, one each; none when they are used up. `cuts`: after how many
    bytes an answer that streams is cut, one each; `idle_s`: after how long without a byte it is."""

    upstream: int
    faults: deque[str] = field(default_factory=deque)
    cuts: deque[int] = field(default_factory=deque)
    idle_s: float = 600.0
    asked: list[str] = field(default_factory=list)
    """The request lines."""
    port: int = 0
    _server: asyncio.Server | None = None
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._quietly, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Refuse connections, and reset those that are open."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._open):
            reset(writer)
        self._server = None

    async def _quietly(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await self._answer(reader, writer)
        finally:
            self._open.discard(writer)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.faults and self.faults[0] == "resets at once":
            self.faults.popleft()
            reset(writer)
            return
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)\r\ncontent-length: *([0-9]+)", head)
        body = await reader.readexactly(int(length[1])) if length else b""
        self.asked.append(head.partition(b"\r\n")[0].decode())
        fault = self.faults.popleft() if self.faults else ""
        if fault == "stalls before":
            await reader.read()
        elif fault == "resets after the request":
            reset(writer)
        elif fault.isdigit():
            self._say(writer, fault)
        else:
            await self._send_on(head, body, reader, writer, fault)

    async def _send_on(
        self, head: bytes, body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, fault: str
    ) -> None:
        source, sink = await asyncio.open_connection("127.0.0.1", self.upstream)
        try:
            head = re.sub(rb"(?i)\r\nconnection: [^\r]*", b"", head)
            sink.write(head[:-2] + b"Connection: close\r\n\r\n" + body)
            if fault:
                await self._spoil(await source.read(), reader, writer, fault)
            else:
                await self._relay(source, writer)
        finally:
            sink.close()

    async def _relay(self, source: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        part = await source.read(65536)
        streams = b"text/event-stream" in part
        left = self.cuts.popleft() if streams and self.cuts else -1
        while part:
            writer.write(part[:left] if left >= 0 else part)
            await writer.drain()
            if 0 <= left <= len(part):
                reset(writer) if left % 2 else writer.close()
                return
            left -= len(part) if left >= 0 else 0
            async with asyncio.timeout(self.idle_s if streams else None):
                part = await source.read(65536)

    async def _spoil(
        self, answer: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, fault: str
    ) -> None:
        header, _, body = answer.partition(b"\r\n\r\n")
        if fault == "stalls after":
            await reader.read()
        elif fault.endswith("after the effect") and fault[:3].isdigit():
            self._say(writer, fault[:3])
        elif fault == "resets within the header":
            writer.write(header[: len(header) // 2])
        elif fault == "ends within a body of unknown length":
            header = re.sub(rb"(?i)\r\ncontent-length: [0-9]+", b"", header)
            writer.write(header + b"\r\n\r\n" + body[: len(body) // 2])
        elif "within the body" in fault:
            writer.write(header + b"\r\n\r\n" + body[: len(body) // 2])
        await writer.drain()
        if fault.startswith("resets"):
            await asyncio.sleep(0.02)  # what was sent arrives
            reset(writer)

    def _say(self, writer: asyncio.StreamWriter, status: str) -> None:
        again = "Retry-After: 0\r\n" if status in ("429", "503") else ""
        writer.write(
            f"HTTP/1.1 {status} Said\r\nContent-Type: text/html\r\n{again}Content-Length: {len(HTML)}\r\n"
            f"Connection: close\r\n\r\n{HTML}".encode()
        )


def reset(writer: asyncio.StreamWriter) -> None:
    """End the connection as a process that is killed does."""
    own = writer.get_extra_info("socket")
    own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
