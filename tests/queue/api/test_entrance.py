"""Under which names the queue answers, to pages of which sites, and what no answer is without: raw requests
on a real socket, by the server that `gpupool serve` has."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gpupool.queue.http_server import answer, listen_on
from gpupool.queue.store.wakeup import Bell
from tests.queue.api.served import HTTP_JOB, Served

Ask = Callable[..., Awaitable[tuple[int, dict[str, str], str]]]
PUBLIC = {"url": "https://queue.example.com"}


@pytest.fixture
def raw(api: Any) -> Callable[..., None]:
    """Runs `async def test(served, ask, port)`: `ask` sends lines of a request and gives status, headers and
    body; `{port}` in a line is the server's port."""

    def run(test: Callable[[Served, Ask, int], Awaitable[None]], **more: Any) -> None:
        async def opened(served: Served) -> None:
            listening, address = listen_on("127.0.0.1", 0)
            port = int(listening.getsockname()[1])
            serving = asyncio.create_task(answer(served.app, listening, Bell(served.db, lambda _: None)))

            async def ask(line: str, *headers: str, body: Any = None) -> tuple[int, dict[str, str], str]:
                text = json.dumps(body) if body is not None else ""
                sent = [line, *headers, f"Content-Length: {len(text)}"]
                sent += ["Content-Type: application/json", "Connection: close", "", text]
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write("\r\n".join(sent).replace("{port}", str(port)).encode())
                got = (await asyncio.wait_for(reader.read(), 20)).decode()
                writer.close()
                head, _, content = got.partition("\r\n\r\n")
                first, *rows = head.split("\r\n")
                found = dict(row.split(": ", 1) for row in rows)
                assert len(found) == len(rows), "a header twice"
                return int(first.split()[1]), {name.lower(): value for name, value in found.items()}, content

            try:
                await test(served, ask, port)
            finally:
                serving.cancel()
                await asyncio.gather(serving, return_exceptions=True)
                listening.close()
            assert address.startswith("http://127.0.0.1")

        api(opened, **more)

    return run


OWN_HOSTS = ("localhost:{port}", "127.0.0.1:{port}", "[::1]:{port}")
WRONG_HOSTS = {
    "another name": ["Host: evil.example:{port}"],
    "no valid name": ["Host: a{b.evil.example:{port}"],
    "a path": ["Host: localhost/.evil.example"],
    "a path after the port": ["Host: localhost:{port}/.evil.example"],
    "empty": ["Host:"],
    "missing": [],
    "two": ["Host: localhost:{port}", "Host: evil.example"],
    "the same twice": ["Host: localhost:{port}", "Host: localhost:{port}"],
    "underscore beside it": ["Host: localhost:{port}", "X: 1", "HOST: evil.example"],
    "upper case": ["Host: LOCALHOST:{port}"],
    "trailing dot": ["Host: localhost.:{port}"],
    "short form": ["Host: 127.1:{port}"],
    "decimal": ["Host: 2130706433:{port}"],
    "another loopback address": ["Host: 127.0.0.2:{port}"],
    "every address": ["Host: 0.0.0.0:{port}"],
    "mapped": ["Host: [::ffff:127.0.0.1]:{port}"],
    "long form": ["Host: [0:0:0:0:0:0:0:1]:{port}"],
    "zone": ["Host: [::1%25lo]:{port}"],
    "user": ["Host: user@localhost:{port}"],
    "user that looks like it": ["Host: localhost:{port}@evil.example"],
    "no port": ["Host: localhost"],
    "another port": ["Host: localhost:1"],
    "two ports": ["Host: localhost:{port}:80"],
    "leading zero": ["Host: localhost:0{port}"],
    "subdomain": ["Host: a.localhost:{port}"],
    "comma": ["Host: localhost:{port}, evil.example"],
    "percent": ["Host: %6cocalhost:{port}"],
    "tab": ["Host: localhost:{port}\t.evil.example"],
    "not ASCII": ["Host: lo\u00e7alhost:{port}"],
}
PLACES = (
    "GET /api/v1/gpu-jobs",
    "POST /api/v1/gpu-jobs",
    "GET /",
    "GET /healthz",
    "GET /openapi.json",
    "PUT /x",
)


def test_with_dev_only_names_of_this_machine_are_answered_to(raw: Any) -> None:
    async def test(served: Served, ask: Ask, port: int) -> None:
        for host in OWN_HOSTS:
            assert (await ask("GET /api/v1/gpu-jobs HTTP/1.1", f"Host: {host}"))[0] == 200, host
        for what, lines in WRONG_HOSTS.items():
            for place in PLACES:
                status, headers, _ = await ask(f"{place} HTTP/1.1", *lines, body=HTTP_JOB)
                assert status in (400, 421), (what, place)
                assert "location" not in headers
        for target in ("http://evil.example/", "http://localhost:{port}/", "//evil.example/", "*"):
            line = f"POST {target}api/v1/gpu-jobs HTTP/1.1"
            status, *_ = await ask(line, "Host: localhost:{port}", "X-Tenant-Id: vision", body=HTTP_JOB)
            assert status in (400, 404, 405, 421), target
        assert (await ask("GET /api/v1/gpu-jobs HTTP/1.0"))[0] == 421
        assert (await served.client.get("/api/v1/gpu-jobs")).json()["jobs"] == []

    raw(test)


WRONG_ORIGINS = (
    "null", "", "http://evil.example", "http://localhost", "http://localhost:1", "https://localhost:{port}",
    "http://127.0.0.1:{port}", "http://LOCALHOST:{port}", "http://localhost:{port}/", "http://localhost:{port}.a",
    "localhost:{port}", "http://a@localhost:{port}", "http://localhost:{port} http://evil.example",
)  # fmt: skip


def test_only_own_pages_change_anything(raw: Any) -> None:
    async def test(served: Served, ask: Ask, port: int) -> None:
        job = (await served.submit())["id"]
        unsafe = (
            ("POST /api/v1/gpu-jobs", HTTP_JOB),
            ("POST /api/v1/gpu-jobs:validate", HTTP_JOB),
            (f"POST /api/v1/gpu-jobs/{job}/cancel", None),
            (f"PATCH /api/v1/gpu-jobs/{job}", {"priority": "high"}),
            (f"POST /jobs/{job}/cancel", None),
            ("POST /login", None),
            ("POST /logout", None),
            ("DELETE /api/v1/gpu-jobs", None),
        )
        own = ["Host: localhost:{port}", "X-Tenant-Id: vision"]
        token = f"Authorization: {served.owner['Authorization']}"
        for place, body in unsafe:
            for credential in ([], [token]):
                wrong = [
                    *([f"Origin: {origin}"] for origin in WRONG_ORIGINS),
                    ["Origin: http://localhost:{port}", "Origin: http://evil.example"],
                    ["Sec-Fetch-Site: cross-site"],
                    ["Sec-Fetch-Site: same-site"],
                    ["Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: cross-site"],
                    ["Sec-Fetch-Site: something new"],
                ]
                for lines in wrong:
                    answered = await ask(f"{place} HTTP/1.1", *own, *credential, *lines, body=body)
                    assert (answered[0], "other-site" in answered[2]) == (403, True), (place, lines)
        found = (await served.client.get("/api/v1/gpu-jobs")).json()["jobs"]
        assert [(row["id"], row["state"], row["version"]) for row in found] == [(job, "queued", 1)]
        own += ["Origin: http://localhost:{port}", "Sec-Fetch-Site: same-origin"]
        assert (await ask("POST /api/v1/gpu-jobs HTTP/1.1", *own, body=HTTP_JOB))[0] == 201
        preflight = ["Host: localhost:{port}", "Origin: http://evil.example"]
        status, headers, _ = await ask("OPTIONS /api/v1/gpu-jobs HTTP/1.1", *preflight)
        assert status == 403
        assert not [name for name in headers if name.startswith("access-control")]

    raw(test)


def test_without_a_public_address_any_name_that_is_one(raw: Any) -> None:
    async def test(served: Served, ask: Ask, port: int) -> None:
        key = f"Authorization: {(await served.key('vision'))['Authorization']}"
        for host in ("10.0.0.7:8021", "queue.example.com", "gpu-scheduler.gpupool-system", "[fd00::1]:8021"):
            assert (await ask("GET /api/v1/gpu-jobs HTTP/1.1", f"Host: {host}", key))[0] == 200
            for scheme in ("http", "https"):
                lines = [f"Host: {host}", f"Origin: {scheme}://{host}", key]
                assert (await ask("POST /api/v1/gpu-jobs HTTP/1.1", *lines, body=HTTP_JOB))[0] == 201
            lines = [f"Host: {host}", "Origin: https://evil.example", key]
            assert (await ask("POST /api/v1/gpu-jobs HTTP/1.1", *lines, body=HTTP_JOB))[0] == 403
        for what in (
            "no valid name",
            "a path",
            "empty",
            "missing",
            "two",
            "user",
            "two ports",
            "comma",
            "zone",
        ):
            status, *_ = await ask("GET /api/v1/gpu-jobs HTTP/1.1", *WRONG_HOSTS[what], key)
            assert status in (400, 421), what

    raw(test, dev=False)


def test_with_a_public_address_that_and_the_service_alone(raw: Any) -> None:
    async def test(served: Served, ask: Ask, port: int) -> None:
        key = f"Authorization: {(await served.key('vision'))['Authorization']}"
        service = "gpu-scheduler.gpupool-system"
        for host in ("queue.example.com", service, f"{service}.svc", f"{service}.svc.cluster.local"):
            status, headers, _ = await ask("GET /api/v1/gpu-jobs HTTP/1.1", f"Host: {host}", key)
            assert status == 200, host
            assert ("strict-transport-security" in headers) is (host == "queue.example.com")
        for host in ("10.0.0.7:8021", "localhost:{port}", "queue.example.com:80", "a.queue.example.com"):
            assert (await ask("GET /api/v1/gpu-jobs HTTP/1.1", f"Host: {host}", key))[0] == 421, host
            for check in ("/healthz", "/readyz"):  # kubelet's
                assert (await ask(f"GET {check} HTTP/1.1", f"Host: {host}"))[0] == 200
            assert (await ask("GET /metrics HTTP/1.1", f"Host: {host}"))[0] == 401
        post = ["POST /api/v1/gpu-jobs HTTP/1.1", "Host: queue.example.com", key]
        assert (await ask(*post, "Origin: https://queue.example.com", body=HTTP_JOB))[0] == 201
        for origin in ("http://queue.example.com", f"http://{service}", "https://queue.example.com:8443"):
            assert (await ask(*post, f"Origin: {origin}", body=HTTP_JOB))[0] == 403, origin

    raw(test, dev=False, queue=PUBLIC)


def test_no_answer_is_without_its_headers(raw: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("on purpose")

    async def test(served: Served, ask: Ask, port: int) -> None:
        id = (await served.submit())["id"]
        host, other = "Host: localhost:{port}", "Host: evil.example"
        asked = {
            "GET /api/v1/gpu-jobs": (200, host), f"GET /api/v1/gpu-jobs/{id}": (200, host),
            f"GET /api/v1/gpu-jobs/{id}/logs": (200, host), "GET /metrics": (200, host),
            "GET /openapi.json": (200, host), "GET /healthz": (200, host), "GET /nothing": (404, host),
            "GET /api/v1/nothing": (404, host), "DELETE /api/v1/gpu-jobs": (405, host),
            "HEAD /api/v1/gpu-jobs": (405, host), "OPTIONS /api/v1/gpu-jobs": (405, host),
            "POST /api/v1/gpu-jobs": (422, host), "GET /": (421, other), "GET /api/v1/pools": (500, host),
        }  # fmt: skip
        monkeypatch.setattr("gpupool.queue.api.pools.pools_of", broken)
        for place, (expected, name) in asked.items():
            status, headers, _ = await ask(f"{place} HTTP/1.1", name)
            assert status == expected, place
            assert headers["cache-control"] == "no-store", place
            assert headers["x-content-type-options"] == "nosniff", place
            assert {"Authorization", "Cookie", "X-Api-Key"} <= set(headers["vary"].split(", ")), place
            assert "strict-transport-security" not in headers
            assert not [header for header in headers if header.startswith("access-control")]

    raw(test)
