"""A Git repository served over HTTP, as an engine of delivery reads it: git's own `http-backend`."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

_IDENTITY = ("-c", "user.name=platform", "-c", "user.email=platform@example.com")


class Repository:
    """A bare repository below a folder, with a working copy."""

    def __init__(self, folder: Path) -> None:
        self.root, self.work = folder / "served", folder / "checkout"
        self.root.mkdir()
        _git(folder, "init", "--quiet", "--bare", "--initial-branch=main", str(self.root / "trial.git"))
        _git(folder, "clone", "--quiet", str(self.root / "trial.git"), str(self.work))

    def push(self, message: str) -> str:
        """Commit all of the working copy and push it; the commit's hash."""
        _git(self.work, "add", "--all")
        _git(self.work, *_IDENTITY, "commit", "--quiet", "--allow-empty", "-m", message)
        _git(self.work, "push", "--quiet", "origin", "HEAD:main")
        return self.head()

    def head(self) -> str:
        """The last commit's hash."""
        return _git(self.work, "rev-parse", "HEAD").strip()

    def revert(self) -> str:
        """Push a commit that undoes the last one; its hash."""
        _git(self.work, *_IDENTITY, "revert", "--no-edit", "HEAD")
        _git(self.work, "push", "--quiet", "origin", "HEAD:main")
        return self.head()


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def served(repository: Repository, port: int) -> Iterator[str]:
    """The address of the repository while the block runs."""

    class Handler(_Handler):
        root = repository.root

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}/trial.git"
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    """Hands each request to `git http-backend`, a program of CGI (RFC 3875)."""

    root: Path

    @cached_property
    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        variables = {
            **os.environ,
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(self._body)),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
        }
        done = subprocess.run(
            ["git", "http-backend"], input=self._body, env=variables, capture_output=True, check=False
        )
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        headers = [line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line]
        status = next((text for name, text in headers if name == "Status"), "200")
        self.send_response(int(status.split()[0]))
        for name, text in headers:
            if name != "Status":
                self.send_header(name, text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815  (http.server finds it by this name)

    def log_message(self, *_: object) -> None:
        """Silent."""
