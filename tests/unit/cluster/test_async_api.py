"""What the asynchronous client sends again, and what it leaves to its caller."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from aiohttp import web

from gpupool.cluster.async_api import AsyncKubeApi
from gpupool.cluster.kube_api import ApiError


def answered(folder: Path, *statuses: int) -> tuple[int, int]:
    """The status of one request to a server that answers so, one after the other, and how many it got."""

    async def run() -> tuple[int, int]:
        left = list(statuses)

        async def answer(_: web.Request) -> web.Response:
            return web.json_response({}, status=left.pop(0), headers={"Retry-After": "0"})

        application = web.Application()
        application.router.add_route("*", "/{path:.*}", answer)
        runner = web.AppRunner(application)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            port = runner.addresses[0][1]
            async with AsyncKubeApi.connect(kubeconfig(folder, f"http://127.0.0.1:{port}")) as api:
                try:
                    await api.request("GET", "/api/v1/nodes")
                    status = 200
                except ApiError as error:
                    status = error.status
        finally:
            await runner.cleanup()
        return status, len(statuses) - len(left)

    return asyncio.run(run())


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
