"""The token of a project's own queue: found by the client, and sent to no other host."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import httpx2
import pytest

from gpupool.cli.queue.serve import queue_folder, serve
from gpupool.client import AsyncClient, Client, local_token
from gpupool.client.errors import NotSent
from gpupool.findings import UsageError
from gpupool.local.job_queue import JobQueue


@pytest.fixture
def token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of a project that the test stands in, two folders deep."""
    for name in ("GPUPOOL_QUEUE_DIR", "GPUPOOL_URL", "GPUPOOL_KEY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "Pulumi.yaml").write_text("name: x\n")
    deep = tmp_path / "src" / "train"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    found = local_token.read(local_token.ensure(queue_folder()))
    assert found is not None
    assert queue_folder() == tmp_path / local_token.FOLDER
    return found


def sent(url: str | None, key: str | None = None) -> list[httpx2.Request]:
    """What each client sends for one call."""
    requests = list[httpx2.Request]()

    def answer(request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        return httpx2.Response(307, headers={"Location": "http://evil.example/"})

    async def ask() -> None:
        async with AsyncClient(url, key=key, transport=httpx2.MockTransport(answer), retry_for=0) as client:
            await client.pools()

    for call in (
        lambda: Client(url, key=key, transport=httpx2.MockTransport(answer), retry_for=0).pools(),
        lambda: asyncio.run(ask()),
    ):
        with pytest.raises(Exception, match="307"):
            call()
    assert len(requests) == 2, "a redirection is not followed"
    return requests


@pytest.mark.parametrize("url", [None, "http://localhost:8021", "http://127.0.0.1:8021", "http://[::1]:8021"])
def test_a_queue_of_this_machine_gets_a_seal_and_never_the_token(token: str, url: str | None) -> None:
    for request in sent(url):
        scheme, _, credential = request.headers["Authorization"].partition(" ")
        assert scheme == "Bearer"
        assert token not in str(request.headers)
        assert local_token.opens(token, "call", 8021, credential, 0)
        assert not local_token.opens(token, "call", 8022, credential, 0)
        assert not local_token.opens(token, "link", 8021, credential, 0)
        assert request.url.host != "localhost", "anybody may listen on [::1]"


@pytest.mark.parametrize(
    "url",
    ["http://queue.example.com", "https://localhost.evil.example", "http://127.0.0.1.evil.example:8021",
     "http://10.0.0.7:8021", "http://0.0.0.0:8021", "http://localhost:8021@evil.example"],
)  # fmt: skip
def test_no_other_host_gets_any(token: str, url: str) -> None:
    assert all("gpl_" not in str(request.headers.raw) for request in sent(url))


def test_a_key_that_is_given_goes_before(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {request.headers["Authorization"] for request in sent(None, "gpk_1")} == {"Bearer gpk_1"}


@pytest.mark.parametrize("url", [None, "http://localhost:8021", "http://[::1]:8021"])
def test_the_token_as_a_key_is_sealed_as_well(
    token: str, url: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    monkeypatch.setenv("GPUPOOL_KEY", token)
    for request in sent(url):
        assert token not in str(request.headers.raw)
        assert local_token.opens(token, "call", 8021, request.headers["Authorization"].split()[1], 0)
        assert request.url.host == "127.0.0.1", "others may listen on [::1]"


def test_the_token_as_a_key_goes_to_no_other_host(token: str) -> None:
    with pytest.raises(
        NotSent, match=r"the token of a queue on this machine, and is not sent to queue\.example"
    ) as raised:
        Client("http://queue.example.com", key=token)
    assert token not in str(raised.value)


def test_without_a_project_nothing_is_sent(
    token: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GPUPOOL_QUEUE_DIR", str(tmp_path / "nowhere"))
    assert all("Authorization" not in request.headers for request in sent(None))


def test_a_link_has_a_seal_and_purging_removes_the_token(
    token: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def link() -> None:
        serve("local", link=True, port=8099)

    link()
    address, _, presented = capsys.readouterr().out.strip().partition("?once=")
    assert address == "http://127.0.0.1:8099/login"
    assert token not in presented
    assert local_token.opens(token, "link", 8099, presented, time.time())
    JobQueue(queue_folder()).purge()
    assert local_token.find() != token
    with pytest.raises(UsageError, match="start `gpupool serve ENV --dev` first"):
        link()
