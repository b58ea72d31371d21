"""A forge of which only the comments work: GitHub's and GitLab's API for them, on a port of this machine.

Answers as the documentation of both says: docs.github.com, REST API, issue comments (version 2022-11-28);
docs.gitlab.com, Notes API (GitLab 18). Keeps what it was sent.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "s3cret"
GITHUB = re.compile(r"/repos/ml/pools/issues/(?:7/comments|comments/(?P<id>\d+))")
GITLAB = re.compile(r"/projects/5/merge_requests/7/notes(?:/(?P<id>\d+))?")


@dataclass
class Comment:
    id: int
    author: str
    body: str

    def as_github(self) -> dict[str, Any]:
        url = f"https://forge.example/7#{self.id}"
        return {"id": self.id, "user": {"login": self.author}, "body": self.body, "html_url": url}

    def as_gitlab(self) -> dict[str, Any]:
        return {"id": self.id, "author": {"id": author_number(self.author)}, "body": self.body}


def author_number(author: str) -> int:
    return sum(author.encode())


@dataclass
class Forge:
    me: str
    """Whose the token is."""
    url: str = ""
    comments: list[Comment] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    """POST, PATCH and PUT, in their order."""
    merge_requests: dict[str, Any] = field(default_factory=dict)
    """Path -> answer of GitLab's API for merge requests, pipelines, jobs and artifacts."""

    def write(self, author: str, body: str) -> Comment:
        comment = Comment(1000 + len(self.comments), author, body)
        self.comments.append(comment)
        return comment

    def ours(self) -> list[Comment]:
        return [comment for comment in self.comments if comment.author == self.me]


@contextmanager
def serve(me: str) -> Iterator[Forge]:
    """A forge whose token belongs to `me`."""
    forge = Forge(me)

    class Handler(_Handler):
        state = forge

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    forge.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield forge
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    state: Forge

    def log_message(self, format: str, *arguments: Any) -> None:
        pass

    def reply(self, status: int, body: Any) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def place(self) -> tuple[str, re.Match[str] | None]:
        path = urlsplit(self.path).path
        for name, pattern in (("github", GITHUB), ("gitlab", GITLAB)):
            if found := pattern.fullmatch(path):
                return name, found
        return "", None

    def allowed(self) -> bool:
        sent = self.headers.get("Authorization"), self.headers.get("PRIVATE-TOKEN")
        if sent in ((f"Bearer {TOKEN}", None), (None, TOKEN)):
            return True
        self.reply(401, {"message": "Bad credentials"})
        return False

    def do_GET(self) -> None:
        if not self.allowed():
            return
        if self.path == "/user":
            self.reply(200, {"id": author_number(self.state.me)})
            return
        if (answer := self.state.merge_requests.get(urlsplit(self.path).path)) is not None:
            self.reply(200, answer)
            return
        forge, found = self.place()
        if found is None:
            self.reply(404, {"message": "Not Found"})
            return
        asked = parse_qs(urlsplit(self.path).query)
        size, page = int(asked["per_page"][0]), int(asked["page"][0])
        shown = self.state.comments[(page - 1) * size : page * size]
        self.reply(200, [getattr(comment, f"as_{forge}")() for comment in shown])

    def body(self) -> str:
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers["Content-Type"] == "application/json":
            return str(json.loads(raw)["body"])
        return parse_qs(raw.decode(), keep_blank_values=True)["body"][0]

    def change(self) -> None:
        body = self.body()
        if not self.allowed():
            return
        forge, found = self.place()
        number = found and found["id"]
        if found is None or (self.command == "POST") == bool(number):
            self.reply(404, {"message": "Not Found"})
            return
        if number:
            comment = next(one for one in self.state.comments if one.id == int(number))
            if comment.author != self.state.me:
                self.reply(403, {"message": "Forbidden"})
                return
            comment.body = body
        else:
            comment = self.state.write(self.state.me, body)
        self.state.writes.append(self.command)
        self.reply(201 if self.command == "POST" else 200, getattr(comment, f"as_{forge}")())

    do_POST = do_PATCH = do_PUT = change  # noqa: N815
