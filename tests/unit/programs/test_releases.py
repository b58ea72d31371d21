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
from gpupool.programs.releases import Unavailable

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


def release(server: Server, path: str, member: str = "", checksum: str = "") -> releases.Release:
    return releases.Release(
        "tiny v1", f"{server.address}{path}", f"{server.address}{path}.sha256", checksum, member
    )


def get(one: releases.Release, folder: Path, seconds: float = 30.0) -> Path:
    target = folder / "tiny-v1-release" / "tiny"
    releases.fetch(one, target, seconds, lambda _: None)
    return target


def refused(one: releases.Release, folder: Path, match: str, seconds: float = 30.0) -> None:
    """`fetch` says why, and leaves neither a file nor a part of one."""
    with pytest.raises(Unavailable, match=match):
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


def serve(server: Server, path: str, content: bytes) -> None:
    server.files |= {path: content, f"{path}.sha256": sha256(content).encode()}


def test_a_program_is_put_in_place_and_runs(server: Server, tmp_path: Path) -> None:
    serve(server, "/tiny", PROGRAM)
    target = get(release(server, "/tiny"), tmp_path)
    assert subprocess.run([target], capture_output=True, text=True, check=True).stdout == "moon\n"
    assert [path.name for path in target.parent.iterdir()] == ["tiny"], "nothing else is left behind"
    assert get(release(server, "/tiny"), tmp_path) == target
    assert server.asked == ["/tiny.sha256", "/tiny"], "what is there is not downloaded again"


def test_the_wanted_member_of_an_archive_is_unpacked_and_no_other(server: Server, tmp_path: Path) -> None:
    traversal = {"../../escaped": b"evil", "/tmp/escaped": b"evil", "tiny/tiny": PROGRAM}
    serve(server, "/tiny.tar.gz", archive(**traversal))
    folder = tmp_path / "a" / "bin"
    target = get(release(server, "/tiny.tar.gz", "tiny/tiny"), folder)
    assert target.read_bytes() == PROGRAM
    written = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert written == ["a/bin/.tiny-v1-release.lock", "a/bin/tiny-v1-release/tiny"]


def test_even_a_wanted_member_that_points_out_of_the_archive_stays_inside(
    server: Server, tmp_path: Path
) -> None:
    serve(server, "/tiny.tar.gz", archive(**{"../../escaped": PROGRAM}))
    target = get(release(server, "/tiny.tar.gz", "../../escaped"), tmp_path / "a" / "bin")
    assert target.read_bytes() == PROGRAM
    assert not list(tmp_path.rglob("escaped"))


def test_a_link_in_place_of_the_program_is_refused(server: Server, tmp_path: Path) -> None:
    link = tarfile.TarInfo("tiny")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    serve(server, "/tiny.tar.gz", archive(tiny=link))
    refused(release(server, "/tiny.tar.gz", "tiny"), tmp_path, r"tiny in it is no ordinary file")


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
    serve(server, "/tiny.tar.gz", content)
    refused(release(server, "/tiny.tar.gz", "tiny"), tmp_path, match)


def test_a_wrong_checksum_is_refused_by_name(server: Server, tmp_path: Path) -> None:
    serve(server, "/tiny", PROGRAM)
    server.files["/tiny"] = PROGRAM + b"one byte"
    found, wanted = sha256(PROGRAM + b"one byte"), sha256(PROGRAM)
    refused(
        release(server, "/tiny"),
        tmp_path,
        rf"/tiny is refused: its sha256 is {found}, and .*/tiny\.sha256 says {wanted}",
    )


def test_a_pinned_checksum_is_stronger_than_what_the_server_says(server: Server, tmp_path: Path) -> None:
    serve(server, "/tiny", b"swapped, checksum and all")
    refused(release(server, "/tiny", checksum=sha256(PROGRAM)), tmp_path, r"refused.*releases\.yaml says")
    assert server.asked == ["/tiny"]


def test_without_a_checksum_nothing_is_downloaded(server: Server, tmp_path: Path) -> None:
    server.files["/tiny"] = PROGRAM
    refused(release(server, "/tiny"), tmp_path, r"/tiny\.sha256: HTTP 404")
    server.files["/tiny.sha256"] = f"{sha256(PROGRAM)}  other\n{sha256(b'')}  another\n".encode()
    refused(release(server, "/tiny"), tmp_path, r"/tiny\.sha256 has no sha256 of tiny")
    server.files["/tiny.sha256"] = b"\xff\xfe"
    refused(release(server, "/tiny"), tmp_path, r"/tiny\.sha256 can't be read")
    assert "/tiny" not in server.asked


def test_a_body_that_ends_early_is_noticed(server: Server, tmp_path: Path) -> None:
    def cut(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(len(PROGRAM)))
        request.end_headers()
        request.wfile.write(PROGRAM[:1000])

    serve(server, "/tiny", PROGRAM)
    server.files["/tiny"] = cut
    refused(release(server, "/tiny"), tmp_path, rf"/tiny broke off after 1000 of {len(PROGRAM)} bytes")


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

    serve(server, "/tiny", PROGRAM)
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

    serve(server, "/tiny", PROGRAM)
    server.files["/tiny"] = trickle
    refused(release(server, "/tiny"), tmp_path, r"127\.0\.0\.1:\d+ is slow", seconds=0.3)


def test_checksums_that_trickle_are_not_waited_for(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trickle(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        for number in range(60):
            request.wfile.write(b"#")
            sent.append(number)
            time.sleep(0.05)

    sent: list[int] = []
    server.files["/tiny.sha256"] = trickle
    monkeypatch.setattr(releases, "ANSWER_SECONDS", 0.5)
    refused(release(server, "/tiny"), tmp_path, r"127\.0\.0\.1:\d+ did not answer within")
    assert len(sent) < 60, "it was not read to its end"


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


def test_a_host_that_can_not_be_reached_is_named_and_nothing_more_is_asked_for_its_sake(
    server: Server, tmp_path: Path
) -> None:
    server.files["/tiny.sha256"] = sha256(PROGRAM).encode()
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # and does not listen
        host = f"127.0.0.1:{deaf.getsockname()[1]}"
        one = releases.Release("tiny v1", f"http://{host}/tiny", f"{server.address}/tiny.sha256", "", "")
        for _ in range(2):
            refused(one, tmp_path, rf"{host} can't be reached \(Connection refused\)")
    assert server.asked == ["/tiny.sha256"]


def test_a_server_that_speaks_no_tls_is_not_asked_without_it(server: Server, tmp_path: Path) -> None:
    serve(server, "/tiny", PROGRAM)
    secure = Server(server.address.replace("http:", "https:"))
    refused(release(secure, "/tiny"), tmp_path, r"127\.0\.0\.1:\d+ can't be reached \(.*SSL")
    assert server.asked == []


def test_a_redirect_is_followed_and_never_away_from_https(server: Server, tmp_path: Path) -> None:
    def redirect(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(302)
        request.send_header("Location", "/elsewhere")
        request.end_headers()

    serve(server, "/tiny", PROGRAM)
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
    serve(server, url, PROGRAM)  # a proxy is asked for the whole address
    monkeypatch.setenv("http_proxy", server.address)
    one = releases.Release("tiny v1", url, f"{url}.sha256", "", "")
    assert get(one, tmp_path).read_bytes() == PROGRAM
