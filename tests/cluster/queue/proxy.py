"""A proxy before the API server or PostgreSQL, whose connections a test cuts or lets stand still.

TLS goes through it untouched.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


class Proxy:
    """Listens on a free port of this machine while its block runs."""

    def __init__(self, target: str | Path) -> None:
        """`target`: an address with a port, or the path of a Unix socket."""
        self._target = target
        self._passes = threading.Event()
        self._passes.set()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()

    def __enter__(self) -> Proxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()
        self._passes.set()
        self.cut()

    def kubeconfig(self, original: Path, folder: Path) -> Path:
        """A copy of a kubeconfig that goes through the proxy."""
        config: dict[str, Any] = json.loads(original.read_text(encoding="utf-8"))
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{self.port}"
        file = folder / "kubeconfig"
        file.write_text(json.dumps(config), encoding="utf-8")
        return file

    def database(self, url: str) -> str:
        """The URL of a database behind the proxy."""
        where = urlsplit(url)
        return f"{where.scheme}://{where.username}@127.0.0.1:{self.port}{where.path}"

    @contextlib.contextmanager
    def partition(self) -> Iterator[None]:
        """Nothing passes while the block runs, and connections stay open: neither end hears of it."""
        self._passes.clear()
        try:
            yield
        finally:
            self._passes.set()

    def cut(self) -> int:
        """Cut every connection, as a network does that forgets them; how many there were."""
        with self._lock:
            cut, self._open = self._open, set()
        for end in cut:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        return len(cut) // 2

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            try:
                far = self._connect()
            except OSError:
                near.close()
                continue
            with self._lock:
                self._open |= {near, far}
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _connect(self) -> socket.socket:
        if isinstance(self._target, Path):
            far = socket.socket(socket.AF_UNIX)
            far.connect(str(self._target))
            return far
        where = urlsplit(self._target)
        return socket.create_connection((where.hostname, where.port), 5)

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                self._passes.wait()
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._open -= {source, sink}
