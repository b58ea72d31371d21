"""Every operation with every kind of credential: what each may do, and what it is answered."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from gpupool.client import Client
from gpupool.live.cluster.kube_api import UnreachableError
from gpupool.queue.api.entrance import PROXY_HEADERS
from gpupool.queue.api.oidc import REFRESH, Oidc
from gpupool.queue.api.rate import Buckets
from gpupool.queue.api.token_review import PodTokens
from gpupool.queue.store import keys
from tests.queue.api.served import HTTP_JOB, Served, problem

ISSUER = "https://id.example.com"
CLUSTER = "https://kubernetes.default.svc"
PEOPLE = {"oidc_groups": ("vision-people",)}
AUTH = {"auth_issuer": ISSUER, "auth_audience": "gpupool"}
PRIVATE: dict[str, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey] = {
    "rsa": rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "ec": ec.generate_private_key(ec.SECP256R1()),
    "ed": ed25519.Ed25519PrivateKey.generate(),
}
OTHER_KEY = ec.generate_private_key(ec.SECP256R1())
ALGORITHM = {"rsa": "RS256", "ec": "ES256", "ed": "EdDSA"}

MORE_OF_PROXIES = (
    "X-Forwarded-For", "X-Forwarded-Host", "x_forwarded_for", "X-Original-URL", "CF-Connecting-IP",
    "X-Amzn-Trace-Id", "X-Envoy-External-Address", "Proxy-Connection", "X-Azure-ClientIP",
)  # fmt: skip

OPERATIONS: Mapping[str, tuple[str, str, str, Any]] = {
    "submit_job": ("POST", "/api/v1/gpu-jobs", "jobs:write", HTTP_JOB),
    "validate_job": ("POST", "/api/v1/gpu-jobs:validate", "jobs:read", HTTP_JOB),
    "jobs": ("GET", "/api/v1/gpu-jobs", "jobs:read", None),
    "job": ("GET", "/api/v1/gpu-jobs/{id}", "jobs:read", None),
    "why": ("GET", "/api/v1/gpu-jobs/{id}/why", "jobs:read", None),
    "logs": ("GET", "/api/v1/gpu-jobs/{id}/logs", "jobs:read", None),
    "result": ("GET", "/api/v1/gpu-jobs/{id}/result", "jobs:read", None),
    "history": ("GET", "/api/v1/gpu-jobs/{id}/events", "jobs:read", None),
    "set_priority": ("PATCH", "/api/v1/gpu-jobs/{id}", "jobs:write", {"priority": "high"}),
    "cancel_job": ("POST", "/api/v1/gpu-jobs/{id}/cancel", "jobs:write", None),
    "rerun_job": ("POST", "/api/v1/gpu-jobs/{id}/rerun", "jobs:write", {}),
    "find": ("GET", "/api/v1/gpu-jobs:find?id={id}", "jobs:read", None),
    "cancel_jobs": ("POST", "/api/v1/gpu-jobs:cancel", "jobs:write", {"name": "no job has this name"}),
    "pools": ("GET", "/api/v1/pools", "jobs:read", None),
    "recommendations": ("GET", "/api/v1/recommendations?memory_gib=8", "jobs:read", None),
    "snippet": ("GET", "/api/v1/pools/training/snippet", "jobs:read", None),
    "usage": ("GET", "/api/v1/tenants/vision/usage", "usage:read", None),
    "metrics": ("GET", "/metrics", "metrics:read", None),
    "events": ("GET", "/api/v1/events?after=999", "jobs:read", None),
}
EVERY = ("jobs:read", "jobs:write", "usage:read", "metrics:read")
OPEN = {"healthz", "readyz"}
DONE = {"submit_job": 201, "rerun_job": 201, "result": 404, "events": 410}
"""What is answered where the credential suffices, if not 200; the last two have nothing to show here."""
OF_ONE_JOB = {name for name, (_, path, *_) in OPERATIONS.items() if "{id}" in path}


def token(kind: str = "rsa", kid: str | None = None, key: Any = None, **changes: Any) -> str:
    now = int(datetime.now(UTC).timestamp())
    claims = {
        "iss": ISSUER,
        "aud": "gpupool",
        "sub": "ada",
        "exp": now + 600,
        "nbf": now - 10,
        "groups": ["everyone", "vision-people"],
    } | changes
    claims = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(claims, key or PRIVATE[kind], ALGORITHM[kind], headers={"kid": kid or kind})


def pod_token(namespace: str, name: str = "worker", **changes: Any) -> str:
    return token(iss=CLUSTER, sub=f"system:serviceaccount:{namespace}:{name}", **changes)


class Cluster:
    """Answers as an API server does, as tests/cluster/queue/test_token_review.py has seen it."""

    def __init__(self) -> None:
        self.reviews = 0
        self.down = False

    async def __call__(
        self, method: str, path: str, *, body: Mapping[str, Any] | None = None
    ) -> Mapping[str, Any]:
        if self.down:
            raise UnreachableError("the cluster at https://10.0.0.1 does not answer")
        if method == "GET":
            return {"issuer": CLUSTER}
        assert body is not None
        self.reviews += 1
        claims = jwt.decode(body["spec"]["token"], options={"verify_signature": False})
        if claims["sub"].endswith(":gone") or claims["aud"] not in body["spec"]["audiences"]:
            return {"status": {"user": {}, "error": "invalid bearer token"}}
        user = {"username": claims["sub"]}
        return {"status": {"authenticated": True, "user": user, "audiences": [claims["aud"]]}}


def forged() -> str:
    """Signed with the public key as if that were a shared secret."""
    secret = (
        PRIVATE["rsa"]
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    claims = jwt.decode(token(), options={"verify_signature": False})
    parts = [json.dumps(part).encode() for part in ({"alg": "HS256", "kid": "rsa"}, claims)]
    text = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts)
    signature = hmac.new(secret, text, hashlib.sha256).digest()
    return f"{text.decode()}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def unsigned() -> str:
    claims = jwt.decode(token(), options={"verify_signature": False})
    return jwt.encode(claims, None, "none", headers={"kid": "rsa"})


class Provider:
    """Answers as an OIDC provider does, and counts."""

    def __init__(self) -> None:
        self.fetched = 0
        self.down = False

    async def __call__(self, address: str) -> Mapping[str, Any]:
        self.fetched += 1
        if self.down:
            raise httpx2.ConnectError("no route")
        if address == f"{ISSUER}/.well-known/openid-configuration":
            return {"issuer": ISSUER, "jwks_uri": f"{ISSUER}/keys"}
        assert address == f"{ISSUER}/keys"
        return {"keys": [*map(_public, PRIVATE), {"kty": "oct", "kid": "shared", "k": "c2VjcmV0"}]}


def _public(kind: str) -> dict[str, Any]:
    algorithm = jwt.get_algorithm_by_name(ALGORITHM[kind])
    return dict(algorithm.to_jwk(PRIVATE[kind].public_key(), as_dict=True)) | {"kid": kind, "use": "sig"}


async def credentials(served: Served) -> dict[str, tuple[dict[str, str], str]]:
    """Name -> headers, and what the credential is: own, other, none of it, or the missing scope."""

    def bearer(text: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {text}"}

    own = await served.key("vision", scopes=EVERY)
    revoked_key, revoked = await keys.create(served.db, "old", ("vision",), ("jobs:read",), None)
    assert await keys.revoke(served.db, revoked_key.id)
    secret = own["Authorization"].removeprefix("Bearer ")
    return {
        "own key": (own, "own"),
        "own key in X-Api-Key": ({"X-Api-Key": secret}, "own"),
        "key of all tenants": (await served.key("*", scopes=("admin",)), "own"),
        "other tenant's key": (await served.key("serving", scopes=EVERY), "other"),
        "key of a tenant that is gone": (await served.key("gone", scopes=EVERY), "other"),
        "key without scope": (await served.key("vision", scopes=("x",)), "no scope"),
        "expired key": (await served.key("vision", days=-1), "invalid"),
        "revoked key": (bearer(revoked), "invalid"),
        "key with another secret": (bearer(secret[:-1] + ("a" if secret[-1] != "a" else "b")), "invalid"),
        "no such key": (bearer("gpk_none_" + "x" * 43), "invalid"),
        "RS256 token": (bearer(token()), "own person"),
        "ES256 token": (bearer(token("ec")), "own person"),
        "EdDSA token": (bearer(token("ed", scope="openid jobs:read jobs:write usage:read")), "own person"),
        "token of another group": (bearer(token(groups=["others"])), "other person"),
        "token without groups": (bearer(token(groups=None)), "other person"),
        "token without scope": (bearer(token(scope="openid profile")), "no scope"),
        "expired token": (bearer(token(exp=1)), "invalid"),
        "token for later": (bearer(token(nbf=9_999_999_999)), "invalid"),
        "token for another audience": (bearer(token(aud="other")), "invalid"),
        "token of another issuer": (bearer(token(iss="https://other.example.com")), "invalid"),
        "token without subject": (bearer(token(sub=None)), "invalid"),
        "token signed by another key": (bearer(token("ec", key=OTHER_KEY)), "invalid"),
        "token with an unknown key": (bearer(token("ec", kid="x")), "invalid"),
        "token signed with the public key": (bearer(forged()), "invalid"),
        "unsigned token": (bearer(unsigned()), "invalid"),
        "pod's token": (bearer(pod_token("team-vision")), "own person"),
        "token of another tenant's pod": (bearer(pod_token("team-serving")), "other person"),
        "token of a pod of no tenant": (bearer(pod_token("kube-system")), "other person"),
        "token of a deleted account": (bearer(pod_token("team-vision", "gone")), "invalid"),
        "no credential": ({}, "invalid"),
        "password": ({"Authorization": "Basic YTpi"}, "invalid"),
        "text": (bearer("gpk_ a b"), "invalid"),
    }  # fmt: skip


def expected(operation: str, kind: str) -> tuple[int, str | None]:
    """Status and problem that a credential of a kind is answered with."""
    done = DONE.get(operation, 200)
    problems = {404: "no-result", 410: "events-pruned"}
    if kind == "invalid":
        return 401, "unauthenticated"
    if kind == "no scope" or (operation == "metrics" and kind.endswith("person")):
        return 403, "insufficient-scope"
    if kind.startswith("own") or operation in ("jobs", "find", "pools", "metrics", "events"):
        return done, problems.get(done)
    if operation in OF_ONE_JOB or operation == "usage":
        return 404, "not-found"
    return 403, "tenant-not-granted"


def test_every_operation_with_every_credential(api: Any) -> None:
    seen = set[tuple[str, str]]()

    async def test(served: Served) -> None:
        setup = await served.key("vision")
        for name, (headers, kind) in (await credentials(served)).items():
            for operation, (method, path, _, body) in OPERATIONS.items():
                job = await served.submit(setup)
                chosen = (
                    {"X-Tenant-Id": "vision"}
                    if operation
                    in ("submit_job", "validate_job", "cancel_jobs", "recommendations", "snippet")
                    else {}
                )
                response = await served.client.request(
                    method, path.replace("{id}", job["id"]), headers=headers | chosen, json=body
                )  # fmt: skip
                status, said = expected(operation, kind)
                assert response.status_code == status, (name, operation, response.text)
                if said:
                    assert problem(response) == said, (name, operation)
                if kind.startswith("other"):
                    assert job["id"] not in response.text.replace(
                        path.replace("{id}", job["id"]), ""
                    ).replace(f"there is no job {job['id']}", ""), (name, operation)
                if status == 401:
                    assert response.headers["www-authenticate"].startswith("Bearer")
                seen.add((operation, kind))
        for place in ("/healthz", "/readyz"):
            assert (await served.client.get(place)).json()["ready"] is True

    more = {"oidc": Oidc(Provider()), "pods": PodTokens(Cluster()), "failures": Buckets(1, 1e9)}
    api(test, dev=False, queue=AUTH, vision=PEOPLE, **more)
    assert len(seen) == len(OPERATIONS) * 6


def test_the_matrix_has_every_operation(api: Any) -> None:
    async def test(served: Served) -> None:
        paths = served.app.openapi()["paths"]
        there = {row["operationId"] for methods in paths.values() for row in methods.values()}
        assert there == {*OPERATIONS, *OPEN}
        methods = {name for name in dir(Client) if not name.startswith("_")}
        assert {*OPERATIONS} - {"metrics", "snippet"} <= methods, "operations are called as the SDK's methods"

    api(test)


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"X-Tenant-Id": "serving"}, "tenant-not-granted"),
        ({"X-Tenant-Id": "nothing"}, "tenant-not-granted"),
        ({"X-Project-Id": "nothing"}, "project-not-granted"),
        ({"X-User-Id": "somebody"}, "user-not-granted"),
    ],
)
def test_headers_choose_only_among_what_the_credential_grants(
    api: Any, headers: dict[str, str], said: str
) -> None:
    async def test(served: Served) -> None:
        key = await served.key("vision", scopes=EVERY)
        job = await served.submit(key)
        for operation, (method, path, _, body) in OPERATIONS.items():
            if operation in ("usage", "metrics"):  # they take no such headers
                continue
            path = path.replace("{id}", job["id"])
            response = await served.client.request(method, path, headers=key | headers, json=body)
            assert (response.status_code, problem(response)) == (403, said), operation
        portal = await served.key("vision", scopes=("jobs:write", "users:any"))
        named = await served.client.post(
            "/api/v1/gpu-jobs", json=HTTP_JOB, headers=portal | {"X-User-Id": "ada"}
        )
        assert named.json()["user_id"] == "ada"
        none = await served.client.post("/api/v1/gpu-jobs", json=HTTP_JOB, headers=await served.key("*"))
        assert problem(none) == "tenant-required"

    api(test, dev=False)


def test_without_a_credential_only_from_this_machine(api: Any) -> None:
    async def test(served: Served) -> None:
        for client, more in (
            (("10.0.0.7", 5), {}),
            (("nonsense", 5), {}),
            (("127.0.0.1", 5), {"Sec-Fetch-Site": "cross-site"}),
            (("127.0.0.1", 5), {"Sec-Fetch-Site": "same-site"}),
            *((("127.0.0.1", 5), {name: "127.0.0.1"}) for name in (*PROXY_HEADERS, *MORE_OF_PROXIES)),
        ):
            transport = httpx2.ASGITransport(served.app, client=client)
            async with httpx2.AsyncClient(transport=transport, base_url="http://localhost:8021") as other:
                assert problem(await other.get("/api/v1/gpu-jobs", headers=more)) == "unauthenticated"
        assert (await served.client.get("/api/v1/gpu-jobs")).status_code == 200

    api(test, dev=True)


def test_invalid_credentials_and_requests_are_rate_limited(api: Any) -> None:
    async def test(served: Served) -> None:
        wrong = {"X-Api-Key": "gpk_x"}
        said = [problem(await served.client.get("/api/v1/pools", headers=wrong)) for _ in range(70)]
        assert said[:60] == ["unauthenticated"] * 60
        assert said[60:] == ["rate-limited"] * 10
        served.clock.forward(60)
        key = await served.key("vision", days=9)
        answers = [await served.client.get("/api/v1/tenants/x/usage", headers=key) for _ in range(2)]
        assert {problem(answer) for answer in answers} == {"not-found"}
        caller = "key test"
        while served.app.state.context.rate.take(caller, served.clock().timestamp()) == 0:
            pass
        late = await served.client.get("/api/v1/pools", headers=key)
        assert (late.status_code, problem(late), late.headers["retry-after"]) == (429, "rate-limited", "1")
        served.clock.forward(1)
        assert (await served.client.get("/api/v1/pools", headers=key)).status_code == 200

    api(test, dev=False)


def test_a_revoked_key_is_refused_within_five_seconds(api: Any) -> None:
    async def test(served: Served) -> None:
        key, secret = await keys.create(served.db, "ci", ("vision",), ("jobs:read",), None)
        headers = {"X-Api-Key": secret}
        assert (await served.client.get("/api/v1/pools", headers=headers)).status_code == 200
        await keys.revoke(served.db, key.id)
        served.clock.forward(5)
        assert problem(await served.client.get("/api/v1/pools", headers=headers)) == "unauthenticated"

    api(test, dev=False)


def test_the_providers_keys_are_fetched_seldom_and_kept_while_it_is_down(api: Any) -> None:
    provider = Provider()

    async def test(served: Served) -> None:
        good = {"Authorization": f"Bearer {token()}"}
        bad = {"Authorization": f"Bearer {token(kid='x')}"}
        for headers in (good, bad, bad, good):
            await served.client.get("/api/v1/gpu-jobs", headers=headers)
        assert provider.fetched == 2
        provider.down = True
        served.clock.forward(REFRESH)
        assert problem(await served.client.get("/api/v1/gpu-jobs", headers=bad)) == "unavailable"
        assert provider.fetched == 3
        assert (await served.client.get("/api/v1/gpu-jobs", headers=good)).status_code == 200

    api(test, dev=False, queue=AUTH, oidc=Oidc(provider), vision=PEOPLE)


def test_a_pods_token_is_reviewed_seldom_and_waits_for_the_api_server(api: Any) -> None:
    cluster = Cluster()

    async def test(served: Served) -> None:
        async def asked(text: str) -> httpx2.Response:
            return await served.client.get("/api/v1/pools", headers={"Authorization": f"Bearer {text}"})

        pod = pod_token("team-vision", exp=int(served.clock().timestamp()) + 15)
        assert [(await asked(pod)).status_code for _ in range(3)] == [200, 200, 200]
        assert cluster.reviews == 1
        cluster.down = True
        assert (await asked(pod)).status_code == 200
        assert (await asked(token())).status_code == 200, "people do not wait for the API server"
        served.clock.forward(10)
        late = await asked(pod)
        assert (late.status_code, problem(late), late.headers["retry-after"]) == (503, "unavailable", "5")
        assert "10.0.0.1" not in late.text
        cluster.down = False
        assert (await asked(pod)).status_code == 200
        served.clock.forward(5)
        assert problem(await asked(pod)) == "unauthenticated"
        assert cluster.reviews == 2

    api(test, dev=False, queue=AUTH, oidc=Oidc(Provider()), pods=PodTokens(cluster), vision=PEOPLE)


def test_accounts_that_a_tenant_names_act_for_it(api: Any) -> None:
    async def test(served: Served) -> None:
        for name, status in (("runner", 200), ("other", 404)):
            headers = {"Authorization": f"Bearer {pod_token('ci', name)}"}
            answer = await served.client.get("/api/v1/tenants/vision/usage", headers=headers)
            assert answer.status_code == status, answer.text

    named = {"service_accounts": ("ci/runner",)}
    api(test, dev=False, queue=AUTH, pods=PodTokens(Cluster()), vision=named)
