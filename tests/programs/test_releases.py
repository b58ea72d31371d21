"""Downloads from a server of our own: only what fits its checksum gets in place; no run waits for long."""

from __future__ import annotations

import hashlib
import http.server
import io
import socket
import subprocess
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpupool.programs import releases
from gpupool.programs.releases import NoDownload

PROGRAM = b"#!/bin/sh\necho moon\n" + b"# filling\n" * 5000
MACHINE = "linux-amd64"
Serve = Callable[[http.server.BaseHTTPRequestHandler], None]


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@dataclass
class Server:
    """A mirror on this machine: path -> content, or a function that answers by itself."""

    address: str
    files: dict[str, bytes | Serve] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known.asked.append(self.path)
            content = known.files.get(self.path)
            if content is None:
                self.send_error(404)
            elif callable(content):
                content(self)
            else:
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    known = Server(f"http://127.0.0.1:{listening.server_port}")
    threading.Thread(target=listening.serve_forever, args=(0.02,), daemon=True).start()
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GPUPOOL_RELEASES", known.address)
    monkeypatch.setattr(releases, "_given_up", {})
    monkeypatch.setattr(releases, "this_machine", lambda: MACHINE)
    yield known
    listening.shutdown()
    listening.server_close()


def release(server: Server, path: str, content: bytes = PROGRAM, member: str = "") -> releases.PublishedFile:
    """The release whose sha256 we have written down as that of `content`."""
    return releases.PublishedFile("tiny v1", f"{server.address}{path}", sha256(content), member)


def get(one: releases.PublishedFile, folder: Path, seconds: float = 30.0) -> Path:
    target = folder / "tiny-v1-release" / "tiny"
    releases.fetch(one, target, seconds, lambda _: None)
    return target


def refused(one: releases.PublishedFile, folder: Path, match: str, seconds: float = 30.0) -> None:
    """`fetch` says why, and leaves neither a file nor a part of one."""
    with pytest.raises(NoDownload, match=match):
        get(one, folder, seconds)
    assert [path.name for path in folder.iterdir()] == [".tiny-v1-release.lock"]


def archive(**members: bytes | tarfile.TarInfo) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in members.items():
            if isinstance(content, tarfile.TarInfo):
                tar.addfile(content)
                continue
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def test_a_program_is_put_in_place_and_runs(server: Server, tmp_path: Path) -> None:
    server.files["/tiny"] = PROGRAM
    target = get(release(server, "/tiny"), tmp_path)
    assert subprocess.run([target], capture_output=True, text=True, check=True).stdout == "moon\n"
    assert [path.name for path in target.parent.iterdir()] == ["tiny"], "nothing else is left behind"
    assert get(release(server, "/tiny"), tmp_path) == target
    assert server.asked == ["/tiny"], "what is there is not downloaded again, and no checksum is asked for"


def test_the_wanted_member_of_an_archive_is_unpacked_and_no_other(server: Server, tmp_path: Path) -> None:
    traversal = {"../../escaped": b"evil", "/tmp/escaped": b"evil", "tiny/tiny": PROGRAM}
    content = server.files["/tiny.tar.gz"] = archive(**traversal)
    folder = tmp_path / "a" / "bin"
    target = get(release(server, "/tiny.tar.gz", content, "tiny/tiny"), folder)
    assert target.read_bytes() == PROGRAM
    written = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert written == ["a/bin/.tiny-v1-release.lock", "a/bin/tiny-v1-release/tiny"]


def test_even_a_wanted_member_that_points_out_of_the_archive_stays_inside(
    server: Server, tmp_path: Path
) -> None:
    content = server.files["/tiny.tar.gz"] = archive(**{"../../escaped": PROGRAM})
    target = get(release(server, "/tiny.tar.gz", content, "../../escaped"), tmp_path / "a" / "bin")
    assert target.read_bytes() == PROGRAM
    assert not list(tmp_path.rglob("escaped"))


def test_a_link_in_place_of_the_program_is_refused(server: Server, tmp_path: Path) -> None:
    link = tarfile.TarInfo("tiny")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    content = server.files["/tiny.tar.gz"] = archive(tiny=link)
    refused(release(server, "/tiny.tar.gz", content, "tiny"), tmp_path, r"tiny in it is not a regular file")


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (archive(other=b""), "has no member tiny"),
        (b"no archive", "can't be unpacked"),
        (archive(tiny=PROGRAM)[:90], "can't be unpacked"),
    ],
    ids=["another member", "no archive", "cut off"],
)
def test_an_archive_that_is_none_or_has_no_such_member(
    server: Server, tmp_path: Path, content: bytes, match: str
) -> None:
    server.files["/tiny.tar.gz"] = content
    refused(release(server, "/tiny.tar.gz", content, "tiny"), tmp_path, match)


def test_what_was_swapped_is_refused_whatever_its_host_says_of_it(server: Server, tmp_path: Path) -> None:
    swapped = PROGRAM + b"one byte"
    beside = (".sha256", ".sha256sum", "/../SHA256SUMS", "/../checksums.txt")
    server.files = {f"/tiny{name}": sha256(swapped).encode() for name in beside} | {"/tiny": swapped}
    refused(
        release(server, "/tiny"),
        tmp_path,
        rf"/tiny is rejected: its sha256 is {sha256(swapped)}, but releases\.yaml has {sha256(PROGRAM)}",
    )
    assert server.asked == ["/tiny"]


def test_a_body_that_ends_early_is_noticed(server: Server, tmp_path: Path) -> None:
    def cut(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(len(PROGRAM)))
        request.end_headers()
        request.wfile.write(PROGRAM[:1000])

    server.files["/tiny"] = cut
    refused(release(server, "/tiny"), tmp_path, rf"/tiny was interrupted after 1000 of {len(PROGRAM)} bytes")


def test_a_server_that_stops_in_the_middle_is_left(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()

    def stall(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(len(PROGRAM)))
        request.end_headers()
        request.wfile.write(PROGRAM[:1000])
        go_on.wait(20)

    server.files["/tiny"] = stall
    monkeypatch.setattr(releases, "STALL_SECONDS", 0.3)
    refused(release(server, "/tiny"), tmp_path, r"127\.0\.0\.1:\d+ sent nothing for")
    go_on.set()


def test_a_server_that_trickles_is_left(server: Server, tmp_path: Path) -> None:
    def trickle(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        for _ in range(200):
            request.wfile.write(b"#")
            time.sleep(0.05)

    server.files["/tiny"] = trickle
    refused(release(server, "/tiny"), tmp_path, r"127\.0\.0\.1:\d+ is slow", seconds=0.3)


def test_a_server_that_never_answers_is_waited_for_once(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releases, "ANSWER_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        deaf = Server(f"http://127.0.0.1:{silent.getsockname()[1]}")
        for _ in range(5):
            refused(release(deaf, "/tiny"), tmp_path, r"127\.0\.0\.1:\d+ did not answer within")
        silent.setblocking(False)
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):
            silent.accept()


def test_a_host_that_can_not_be_reached_is_named_and_not_asked_again(tmp_path: Path, server: Server) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # and does not listen
        host = f"127.0.0.1:{deaf.getsockname()[1]}"
        refused(
            release(Server(f"http://{host}"), "/tiny"),
            tmp_path,
            rf"{host} can't be reached \(Connection refused\)",
        )
        deaf.listen()
        deaf.settimeout(0.2)
        refused(release(Server(f"http://{host}"), "/tiny"), tmp_path, rf"{host} can't be reached")
        with pytest.raises(TimeoutError):
            deaf.accept()


def test_a_server_that_speaks_no_tls_is_not_asked_without_it(server: Server, tmp_path: Path) -> None:
    server.files["/tiny"] = PROGRAM
    secure = Server(server.address.replace("http:", "https:"))
    refused(release(secure, "/tiny"), tmp_path, r"127\.0\.0\.1:\d+ can't be reached \(.*SSL")
    assert server.asked == []


def test_a_redirect_is_followed_and_never_away_from_https(server: Server, tmp_path: Path) -> None:
    def redirect(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(302)
        request.send_header("Location", "/elsewhere")
        request.end_headers()

    server.files |= {"/tiny": redirect, "/elsewhere": PROGRAM}
    assert get(release(server, "/tiny"), tmp_path).read_bytes() == PROGRAM
    handler = releases._SafeRedirects()
    secure = releases.urllib.request.Request("https://example.org/tiny")
    with pytest.raises(releases.urllib.error.HTTPError, match="away from HTTPS"):
        handler.redirect_request(secure, io.BytesIO(), 302, "Found", {}, "http://example.org/tiny")
    assert handler.redirect_request(secure, io.BytesIO(), 302, "Found", {}, "https://example.org/other")


def test_a_proxy_of_the_environment_is_used(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "http://releases.invalid/tiny"
    server.files[url] = PROGRAM  # a proxy is asked for the whole address
    monkeypatch.setenv("http_proxy", server.address)
    one = releases.PublishedFile("tiny v1", url, sha256(PROGRAM), "")
    assert get(one, tmp_path).read_bytes() == PROGRAM
