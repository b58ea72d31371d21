"""Tokens of pods, as the real API server makes, reviews and revokes them."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from typing import Any

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from gpupool.environment.plan.model import SYSTEM_NAMESPACE
from gpupool.environment.plan.pods import API_ACCOUNT, API_USER
from gpupool.generators import rbac
from gpupool.live.cluster.async_api import AsyncKubeApi
from gpupool.live.cluster.kube_api import KubeApi
from gpupool.local.control_plane import ControlPlane
from gpupool.queue.api.token_review import REMEMBERED_SECONDS, PodTokens
from tests.cluster.kube import Kube
from tests.queue.api.served import Served, local_plan, problem


def request_token(kube: KubeApi, namespace: str, account: str, **spec: Any) -> str:
    """As kubelet asks for a projected volume."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    token: str = kube.request("POST", path, None, body)[1]["status"]["token"]
    return token


@pytest.fixture
def reviewed(cluster: Kube, control_plane: ControlPlane) -> PodTokens:
    """By the API server, as the queue's account asks it, with the rights that are generated."""
    for namespace in (SYSTEM_NAMESPACE, "team-vision", "team-serving", "elsewhere"):
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        account = {"apiVersion": "v1", "kind": "ServiceAccount"}
        cluster.apply({**account, "metadata": {"name": "worker", "namespace": namespace}})
    cluster.apply(*(dict(one.body) for one in rbac.generate(local_plan()) if one.name == API_ACCOUNT))

    importlib.import_module("kubernetes.aio")  # takes seconds, which are else a request's

    async def ask(method: str, path: str, *, body: Any = None) -> Any:
        async with AsyncKubeApi.connect(control_plane.kubeconfig, API_USER) as kube:
            return await kube.request(method, path, body=body)

    return PodTokens(ask)


def test_a_pod_acts_for_its_namespaces_tenant_and_no_other(
    cluster: Kube, control_plane: ControlPlane, reviewed: PodTokens, api: Callable[..., Any]
) -> None:
    def made(namespace: str, **spec: Any) -> str:
        return request_token(cluster.api, namespace, "worker", **({"audiences": ["gpupool"]} | spec))

    good = made("team-vision")
    key = control_plane.layout.service_account_key.read_bytes()
    header = {"kid": jwt.get_unverified_header(good)["kid"]}
    claims = jwt.decode(good, options={"verify_signature": False})
    other_key = ec.generate_private_key(ec.SECP256R1())
    cases = {
        "its own": (good, 200),
        "of another tenant": (made("team-serving"), 404),
        "of no tenant": (made("elsewhere"), 404),
        "for the API server": (made("team-vision", audiences=[claims["iss"]]), 401),
        "for another service": (made("team-vision", audiences=["vault"]), 401),
        "for several": (made("team-vision", audiences=["vault", "gpupool"]), 200),
        "signed like the cluster's": (jwt.encode(claims, key, "ES256", headers=header), 200),
        "expired": (jwt.encode(claims | {"exp": 1_700_000_000}, key, "ES256", headers=header), 401),
        "signed by another key": (jwt.encode(claims, other_key, "ES256", headers=header), 401),
        "of another cluster": (jwt.encode(claims | {"iss": "https://else"}, key, "ES256"), 401),
    }

    async def test(served: Served) -> None:
        for name, (token, status) in cases.items():
            headers = {"Authorization": f"Bearer {token}"}
            answer = await served.client.get("/api/v1/tenants/vision/usage", headers=headers)
            assert answer.status_code == status, (name, answer.text)
        job = await served.submit({"Authorization": f"Bearer {good}"})
        assert job["user_id"] == "system:serviceaccount:team-vision:worker"

    api(test, dev=False, pods=reviewed)


def test_what_is_deleted_works_no_longer(cluster: Kube, reviewed: PodTokens, api: Callable[..., Any]) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "caller", "namespace": "team-vision"},
        "spec": {"serviceAccountName": "worker", "containers": [{"name": "a", "image": "example/a:1"}]},
    }
    uid = cluster.api.create(pod)["metadata"]["uid"]
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "caller", "uid": uid}
    tokens = {
        "of a pod": request_token(
            cluster.api, "team-vision", "worker", audiences=["gpupool"], boundObjectRef=bound
        ),
        "of an account": request_token(cluster.api, "team-vision", "worker", audiences=["gpupool"]),
    }
    gone = {"of a pod": ("Pod", "caller"), "of an account": ("ServiceAccount", "worker")}

    async def test(served: Served) -> None:
        async def asked(name: str) -> httpx2.Response:
            headers = {"Authorization": f"Bearer {tokens[name]}"}
            return await served.client.get("/api/v1/pools", headers=headers)

        for name, (kind, deleted) in gone.items():
            assert (await asked(name)).status_code == 200
            cluster.api.delete("v1", kind, deleted, "team-vision", grace=0)
        assert [(await asked(name)).status_code for name in gone] == [200, 200], "remembered for some seconds"
        for name in gone:
            for _ in range(30):  # the API server remembers for 10 s as well (authenticator.go, token cache)
                served.clock.forward(REMEMBERED_SECONDS)
                answer = await asked(name)
                if answer.status_code == 401:
                    break
                await asyncio.sleep(1)
            assert answer.status_code == 401, (name, answer.text)

    api(test, dev=False, pods=reviewed)


def test_without_the_right_to_review_the_queue_says_that_it_can_not(
    cluster: Kube, reviewed: PodTokens, api: Callable[..., Any]
) -> None:
    cluster.api.delete("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", API_ACCOUNT)
    token = request_token(cluster.api, "team-vision", "worker", audiences=["gpupool"])

    async def test(served: Served) -> None:
        for _ in range(50):  # the authorizer hears of it a moment later
            answer = await served.client.get("/api/v1/pools", headers={"Authorization": f"Bearer {token}"})
            if answer.status_code == 503:
                break
            served.clock.forward(REMEMBERED_SECONDS)
        assert problem(answer) == "unavailable"

    api(test, dev=False, pods=reviewed)
