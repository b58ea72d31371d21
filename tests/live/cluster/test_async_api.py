"""What the asynchronous client sends again, and what it leaves to its caller."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from kubernetes.aio.config import ConfigException

from gpupool.live.cluster import async_api
from gpupool.live.cluster.async_api import AsyncKubeApi
from gpupool.live.cluster.kube_api import ApiError, UnreachableError

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
Test = Callable[[AsyncKubeApi], Awaitable[Any]]


def served(folder: Path, answer: Answer, test: Test) -> Any:
    """What a test gives that uses a server which answers so."""

    async def run() -> Any:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", answer)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            port = runner.addresses[0][1]
            given = kubeconfig(folder, f"http://127.0.0.1:{port}")
            async with AsyncKubeApi.connect(given) as api:
                return await test(api)
        finally:
            await runner.cleanup()

    return asyncio.run(run())


def answered(folder: Path, *statuses: int, after: str = "0") -> tuple[int, int]:
    """The status of one request to a server that answers so, one after the other, and how many it got."""
    left = list(statuses)

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({}, status=left.pop(0), headers={"Retry-After": after})

    async def test(api: AsyncKubeApi) -> int:
        try:
            await api.request("GET", "/api/v1/nodes")
        except ApiError as error:
            return error.status
        return 200

    return served(folder, answer, test), len(statuses) - len(left)


def kubeconfig(folder: Path, server: str) -> Path:
    path = folder / "kubeconfig"
    given = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "one", "cluster": {"server": server}}],
        "users": [{"name": "one", "user": {"token": "a-token"}}],
        "contexts": [{"name": "one", "context": {"cluster": "one", "user": "one"}}],
        "current-context": "one",
    }
    path.write_text(json.dumps(given))
    return path


@pytest.mark.parametrize("status", [500, 503, 409])
def test_an_error_is_the_callers(tmp_path: Path, status: int) -> None:
    assert answered(tmp_path, status, 200) == (status, 1)


def test_a_throttled_request_is_sent_again(tmp_path: Path) -> None:
    assert answered(tmp_path, 429, 429, 200) == (200, 3)


def test_a_throttled_request_waits_as_long_as_the_server_asks(tmp_path: Path) -> None:
    began = time.monotonic()
    assert answered(tmp_path, 429, 200, after="2") == (200, 2)
    assert time.monotonic() - began >= 2


def test_a_throttled_watch_is_opened_again(tmp_path: Path) -> None:
    asked = []

    async def answer(_: web.Request) -> web.Response:
        asked.append(time.monotonic())
        if len(asked) == 1:
            return web.json_response({}, status=429, headers={"Retry-After": "1"})
        return web.Response(text='{"type": "ADDED", "object": {}}\n')

    async def watched(api: AsyncKubeApi) -> list[str]:
        return [type async for type, _ in api.watch("/api/v1/nodes", "1")]

    assert served(tmp_path, answer, watched) == ["ADDED"]
    assert asked[1] - asked[0] >= 1


@pytest.mark.parametrize("text", ["<html>a proxy's page</html>", "{}", "[]", '{"metadata": {}}'])
def test_an_answer_that_is_no_list_is_none(tmp_path: Path, text: str) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=text)

    with pytest.raises(UnreachableError):
        served(tmp_path, answer, lambda api: api.list_all("/api/v1/nodes"))


@pytest.mark.parametrize("error", [FileNotFoundError("the token's file"), ConfigException("it is empty")])
def test_credentials_that_can_not_be_had_any_longer_are_an_error_of_the_cluster(
    tmp_path: Path, error: Exception
) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({})

    def refresh(_: object) -> None:
        raise error

    async def test(api: AsyncKubeApi) -> None:
        api._client.configuration.refresh_api_key_hook = refresh
        await api.request("GET", "/api/v1/nodes")

    with pytest.raises(UnreachableError, match=str(error)):
        served(tmp_path, answer, test)


def test_a_stream_without_a_line_for_long_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its server may be half-dead; who reads it opens it again."""
    monkeypatch.setattr(async_api, "QUIET_S", 0.5)

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n\ntwo\n")
        await asyncio.sleep(30)
        return response

    async def test(api: AsyncKubeApi) -> list[bytes]:
        async with asyncio.timeout(10):
            return [line async for line in api.log("/log", {})]

    assert served(tmp_path, answer, test) == [b"one", b"two"]


def test_a_line_without_end_takes_no_memory_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_api, "LONGEST_LINE", 100)

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=b"short\n" + b"x" * 20_000_000 + b"\nafter\n")

    async def test(api: AsyncKubeApi) -> list[bytes]:
        return [line async for line in api.log("/log", {})]

    short, long, after = served(tmp_path, answer, test)
    assert (short, after) == (b"short", b"after")
    assert set(long) == set(b"x")
    assert len(long) < 5_000_000


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("https://kube.example.com:6443", "http://proxy.example.com:3128"),
        ("https://kube.inside.example.com", None),
        ("https://127.0.0.1:6443", None),
        ("https://[::1]:6443", None),
        ("https://localhost:6443", None),
    ],
)
def test_a_proxy_of_the_environment_is_looked_up_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str, expected: str | None
) -> None:
    """And never by the library, which does it in a thread for every request."""
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example.com:3128")
    monkeypatch.setenv("NO_PROXY", "inside.example.com")

    async def given() -> tuple[str | None, bool]:
        async with AsyncKubeApi.connect(kubeconfig(tmp_path, server)) as api:
            rest = api._client.rest_client
            async with rest._create_pool_manager() as session:
                return rest.proxy, session.trust_env

    assert asyncio.run(given()) == (expected, False)
