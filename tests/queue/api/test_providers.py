"""Credentials that others have to verify: a provider or an API server that is slow, large or strange, and
tokens that claim strange things."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from gpupool.queue.api import fetched_value, oidc
from gpupool.queue.api.oidc import REFRESH, Oidc
from gpupool.queue.api.token_review import PodTokens
from tests.queue.api.served import Served, problem
from tests.queue.api.test_credentials import (
    AUTH,
    CLUSTER,
    ISSUER,
    PEOPLE,
    PRIVATE,
    Provider,
    pod_token,
    token,
)

JOBS = "/api/v1/gpu-jobs"


async def asked(served: Served, text: str) -> tuple[int, str]:
    response = await served.client.get(JOBS, headers={"Authorization": f"Bearer {text}"})
    return response.status_code, "" if response.status_code == 200 else problem(response)


CLAIMS: Mapping[str, Mapping[str, Any]] = {
    "exp Infinity": {"exp": float("inf")},
    "exp NaN": {"exp": float("nan")},
    "exp beyond all floats": {"exp": 10**400},
    "exp far away": {"exp": 10**12},
    "exp true": {"exp": True},
    "exp text": {"exp": "9999999999"},
    "exp a list": {"exp": [9999999999]},
    "exp negative": {"exp": -1},
    "no exp": {"exp": None},
    "nbf Infinity": {"nbf": float("-inf")},
    "nbf NaN": {"nbf": float("nan")},
    "nbf false": {"nbf": False},
    "iat NaN": {"iat": float("nan")},
    "iat text": {"iat": "now"},
    "empty sub": {"sub": ""},
    "sub a number": {"sub": 7},
    "sub a list": {"sub": ["ada"]},
    "long sub": {"sub": "a" * 256},
    "sub with a line break": {"sub": "ada\nroot"},
    "groups text": {"groups": "vision-people"},
    "groups a mapping": {"groups": {"vision-people": 1}},
    "groups of numbers": {"groups": ["vision-people", 7]},
    "scope a number": {"scope": 1},
    "scope a mapping": {"scope": {"jobs:read": True}},
    "scp of lists": {"scp": [["jobs:read"]]},
    "aud a mapping": {"aud": {"gpupool": 1}},
    "aud of numbers": {"aud": [1]},
}  # fmt: skip


def test_claims_of_another_type_or_size_are_refused(api: Any) -> None:
    async def test(served: Served) -> None:
        for name, changes in CLAIMS.items():
            assert await asked(served, token(**changes)) == (401, "unauthenticated"), name
        for changes in (
            {"scp": ["jobs:read"]},
            {"scope": "jobs:read x"},
            {"aud": ["x", "gpupool"]},
            {"iat": 1.5},
        ):
            assert await asked(served, token(**changes)) == (200, ""), changes

    api(test, dev=False, queue=AUTH, vision=PEOPLE, oidc=Oidc(Provider()))


def test_tokens_that_are_no_json_are_refused(api: Any) -> None:
    def joined(*parts: bytes) -> str:
        return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in (*parts, b"x"))

    fine, deep = b'{"alg":"RS256","kid":"rsa"}', b"[" * 3000 + b"]" * 3000
    listed = joined(b'{"alg":"RS256","kid":["rsa"]}', b'{"iss":"%s","exp":9e9}' % ISSUER.encode())
    texts = {
        "deep header": joined(deep, b"{}"),
        "deep claims": joined(fine, deep),
        "deep in claims": joined(fine, b'{"iss":' + deep + b"}"),
        "a long number": joined(fine, b'{"exp":' + b"9" * 5000 + b"}"),
        "kid a list": listed,
        "no kid": jwt.encode({"iss": ISSUER, "exp": 9e9}, PRIVATE["rsa"], "RS256"),
        "claims a list": joined(fine, b"[]"),
        "dots": "a.b.c.d",
    }

    async def test(served: Served) -> None:
        for name, text in texts.items():
            assert await asked(served, text) == (401, "unauthenticated"), name

    api(test, dev=False, queue=AUTH, oidc=Oidc(Provider()), pods=PodTokens(_cluster))


async def _cluster(*_: Any, **__: Any) -> Mapping[str, Any]:
    return {"issuer": CLUSTER}


@dataclass
class HttpProvider:
    """A provider on a real socket, that may answer as no provider should."""

    issuer: str = ""
    answers: dict[str, bytes] = field(default_factory=dict)
    """Path -> all bytes of an answer, in place of the right one."""
    drips: bool = False
    asked: list[str] = field(default_factory=list)
    keys: list[dict[str, Any]] = field(default_factory=list)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[HttpProvider]:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.issuer = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield self
        server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
            self.asked.append(path)
            writer.write(self.answers.get(path) or self._right(path))
            while self.drips:
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.05)
            await writer.drain()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    def _right(self, path: str) -> bytes:
        about = {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys"}
        body = json.dumps({"keys": self.keys} if path == "/keys" else about).encode()
        if self.drips:
            return b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"
        return answer(body)


def answer(body: bytes, status: str = "200 OK", *lines: str) -> bytes:
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *lines, "", ""]
    return "\r\n".join(head).encode() + body


def public(kid: str, key: Any = None, **more: Any) -> dict[str, Any]:
    algorithm = jwt.get_algorithm_by_name("RS256")
    return dict(algorithm.to_jwk((key or PRIVATE["rsa"]).public_key(), as_dict=True)) | {"kid": kid} | more


def test_a_slow_provider_is_in_elsewhere_way(api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetched_value, "WAIT_S", 1.0)
    monkeypatch.setattr(fetched_value, "LIMIT_S", 3.0)
    provider = HttpProvider(keys=[public("rsa")])

    async def test(served: Served) -> None:
        async with provider.running():
            plan = served.app.state.context.plan().queue
            object.__setattr__(plan, "auth_issuer", provider.issuer)
            good, unknown = token(iss=provider.issuer), token(iss=provider.issuer, kid="x")
            assert await asked(served, good) == (200, "")
            assert provider.asked == ["/.well-known/openid-configuration", "/keys"]
            assert await asked(served, unknown) == (401, "unauthenticated")
            provider.drips = True
            served.clock.forward(REFRESH)
            began = time.monotonic()
            waiting = [asyncio.create_task(asked(served, unknown)) for _ in range(100)]
            await asyncio.sleep(0.3)
            for _ in range(5):
                assert await asked(served, good) == (200, "")
            assert not all(task.done() for task in waiting), "known keys do not wait"
            assert await asyncio.gather(*waiting) == [(503, "unavailable")] * 100
            assert len(provider.asked) == 3, "one fetch"
            await asyncio.sleep(max(0.0, began + 3.5 - time.monotonic()))
            provider.drips = False
            assert await asked(served, unknown) == (503, "unavailable"), "it backs off"
            assert len(provider.asked) == 3
            provider.keys.append(public("x"))
            served.clock.forward(5)
            assert await asked(served, unknown) == (200, "")
            served.clock.forward(oidc.KEYS_AGE + 1)
            provider.drips = True
            fresh = token(iss=provider.issuer, exp=int(served.clock().timestamp()) + 60)
            assert await asked(served, fresh) == (200, ""), "old keys are fetched again meanwhile"

    api(test, dev=False, queue=AUTH, vision=PEOPLE, oidc=Oidc())


WEAK = rsa.generate_private_key(public_exponent=65537, key_size=1024)
ABOUT = "/.well-known/openid-configuration"
STRANGE: Mapping[str, Mapping[str, bytes]] = {
    "700 MB of configuration": {ABOUT: answer(b"x" * 600_000)},
    "700 MB without a length": {ABOUT: b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 600_000},
    "deep": {ABOUT: answer(b"[" * 100_000)},
    "a list": {ABOUT: answer(b"[]")},
    "a redirect": {ABOUT: answer(b"", "302 Found", "Location: /keys")},
    "an error with keys": {"/keys": answer(b'{"keys": []}', "500 Oops")},
    "a bomb": {ABOUT: answer(b"\x1f\x8b" + b"x" * 100, "200 OK", "Content-Encoding: gzip")},
    "keys a number": {"/keys": answer(b'{"keys": 7}')},
    "keys of texts": {"/keys": answer(b'{"keys": ["a"]}')},
    "no keys": {"/keys": answer(b"{}")},
}  # fmt: skip


@pytest.mark.parametrize("answers", STRANGE.values(), ids=STRANGE)
def test_a_strange_provider_makes_tokens_unverifiable(api: Any, answers: Mapping[str, bytes]) -> None:
    provider = HttpProvider(answers=dict(answers), keys=[public("rsa")])

    async def test(served: Served) -> None:
        async with provider.running():
            object.__setattr__(served.app.state.context.plan().queue, "auth_issuer", provider.issuer)
            assert await asked(served, token(iss=provider.issuer)) == (503, "unavailable")
            assert len(provider.asked) <= 2
            key = await served.key("vision")
            assert (await served.client.get(JOBS, headers=key)).status_code == 200

    api(test, dev=False, queue=AUTH, vision=PEOPLE, oidc=Oidc())


@pytest.mark.parametrize("address", ["http://id.example.com/keys", "file:///etc/passwd", "//x", 7, None])
def test_keys_come_from_an_https_address(api: Any, address: Any) -> None:
    class Elsewhere(Provider):
        async def __call__(self, asked: str) -> Mapping[str, Any]:
            found = await super().__call__(f"{ISSUER}/keys" if asked == address else asked)
            return found | {"jwks_uri": address} if "issuer" in found else found

    provider = Elsewhere()

    async def test(served: Served) -> None:
        assert await asked(served, token()) == (503, "unavailable")
        assert provider.fetched == 1

    api(test, dev=False, queue=AUTH, vision=PEOPLE, oidc=Oidc(provider))


@pytest.mark.parametrize(
    "row",
    [
        public("rsa", WEAK),
        public("rsa", n="A" * 2000),
        public("rsa", e="A" * 300),
        public("rsa", n=7),
        public("rsa", use="enc"),
        public("x") | {"kid": ["rsa"]},
        public("rsa", kty="oct", k="c2VjcmV0"),
        public("rsa", crv="P-256"),
    ],
)  # fmt: skip
def test_keys_that_are_weak_huge_or_of_another_use_are_none(api: Any, row: dict[str, Any]) -> None:
    class Other(Provider):
        async def __call__(self, address: str) -> Mapping[str, Any]:
            found = await super().__call__(address)
            return {"keys": [row, *(public(f"k{n}") for n in range(300))]} if "keys" in found else found

    async def test(served: Served) -> None:
        signed = token(key=WEAK) if row == public("rsa", WEAK) else token()
        assert await asked(served, signed) == (401, "unauthenticated")
        assert await asked(served, token(kid="k50")) == (200, "")
        assert await asked(served, token(kid="k299")) == (401, "unauthenticated"), "so many keys are enough"

    api(test, dev=False, queue=AUTH, vision=PEOPLE, oidc=Oidc(Other()))


def test_a_slow_api_server_is_in_the_way_of_pods_alone(api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpupool.queue.api.token_review.ANSWER_SECONDS", 1.0)
    monkeypatch.setattr(fetched_value, "WAIT_S", 0.5)
    reviews, slow = list[str](), asyncio.Event()

    async def cluster(method: str, path: str, *, body: Any = None) -> Mapping[str, Any]:
        if slow.is_set():
            await asyncio.sleep(60)
        if method == "GET":
            return {"issuer": CLUSTER}
        reviews.append(path)
        await asyncio.sleep(0.05)
        claims = jwt.decode(body["spec"]["token"], options={"verify_signature": False})
        user = {"username": claims["sub"]}
        return {"status": {"authenticated": True, "user": user, "audiences": [claims["aud"]]}}

    async def test(served: Served) -> None:
        slow.set()
        key = await served.key("vision")
        pods = [asyncio.create_task(asked(served, pod_token("team-vision", f"p{n}"))) for n in range(80)]
        assert await asked(served, token()) == (200, ""), "people"
        assert (await served.client.get(JOBS, headers=key)).status_code == 200
        assert not all(task.done() for task in pods)
        assert await asyncio.gather(*pods) == [(503, "unavailable")] * 80
        slow.clear()
        await asyncio.sleep(1)
        served.clock.forward(10)
        same = pod_token("team-vision")
        assert await asyncio.gather(*(asked(served, same) for _ in range(20))) == [(200, "")] * 20
        assert len(reviews) == 1, "one question for a token"
        slow.set()
        pods = [asyncio.create_task(asked(served, pod_token("team-vision", f"q{n}"))) for n in range(80)]
        await asyncio.sleep(0.1)
        assert await asked(served, same) == (200, "")
        assert await asyncio.gather(*pods) == [(503, "unavailable")] * 80

    api(test, dev=False, queue=AUTH, vision=PEOPLE, oidc=Oidc(Provider()), pods=PodTokens(cluster))
