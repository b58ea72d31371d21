"""The queue's accounts may do what its processes do, and nothing else: without any one verb of any role that
they are bound to, some operation of theirs fails, and says which verb is missing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import jwt
import pytest

from gpupool.environment.plan.model import SYSTEM_NAMESPACE
from gpupool.environment.plan.pods import API_USER, LAUNCHER_USER, LEASE, RECORDED_FINALIZER
from gpupool.environment.plan.resolve import read_plan
from gpupool.findings import GpupoolError
from gpupool.generators import generate
from gpupool.live.cluster.async_api import AsyncKubeApi
from gpupool.queue.api.credentials import Rejected, Unverifiable
from gpupool.queue.api.token_review import PodTokens
from gpupool.queue.kubernetes import mirror
from gpupool.queue.kubernetes.cluster import KubernetesCluster
from gpupool.queue.kubernetes.job_manifest import service
from gpupool.queue.kubernetes.lease import marked
from tests.cluster.kube import Kube
from tests.cluster.queue.conftest import ENVIRONMENT
from tests.cluster.queue.served import a_job, apply

Object = dict[str, Any]
NAMESPACE = "queue-vision"
PLAN = read_plan(str(ENVIRONMENT))
MANIFESTS = list(generate(PLAN))
USERS = {
    manifest.body["roleRef"]["name"]: user
    for manifest in MANIFESTS
    if manifest.kind in ("RoleBinding", "ClusterRoleBinding")
    for subject in manifest.body["subjects"]
    for user in (LAUNCHER_USER, API_USER)
    if user == f"system:serviceaccount:{subject.get('namespace')}:{subject['name']}"
}
"""Role -> the account of the queue that has it."""
ROLES = {
    manifest.name: manifest.body["rules"]
    for manifest in MANIFESTS
    if manifest.kind in ("Role", "ClusterRole") and manifest.name in USERS
}
VERBS = [
    pytest.param(role, number, resource, verb, id=f"{verb} {resource} ({role})")
    for role, rules in ROLES.items()
    for number, rule in enumerate(rules)
    for resource in rule["resources"]
    for verb in rule["verbs"]
]
LOCAL = {manifest.name for manifest in MANIFESTS if manifest.kind == "Role"}
NOW = datetime(2026, 11, 25, tzinfo=UTC)
UID = "11111111-1111-1111-1111-111111111111"
JOB = a_job(PLAN)
NAME = JOB["metadata"]["name"]
ABOUT: Object = {key: JOB["metadata"][key] for key in ("name", "namespace", "labels")}
SERVICE = service({**JOB, "metadata": {**JOB["metadata"], "uid": UID}}) or {}
POD: Object = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "present", "namespace": NAMESPACE},
    "spec": {
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "job",
                "image": "busybox:1.37",
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                "resources": {
                    "requests": {"cpu": "1m", "memory": "1Mi"},
                    "limits": {"cpu": "1m", "memory": "1Mi"},
                },
            }
        ],
    },
}


def held(thing: Object) -> Object:
    """As if it had our finalizer."""
    changes = {"finalizers": [RECORDED_FINALIZER], "uid": UID}
    return {**thing, "metadata": {**thing["metadata"], **changes}}


async def watched(api: AsyncKubeApi, path: str) -> None:
    _, version = await api.list_all(path)
    try:
        async with asyncio.timeout(0.3), aclosing(api.watch(path, version)) as events:  # type: ignore[type-var]
            async for _ in events:
                return
    except TimeoutError:
        return


async def output(api: AsyncKubeApi) -> None:
    async for _ in KubernetesCluster(api).output(POD, "job", since=None, follow=False):
        return


async def create_twice(api: AsyncKubeApi, thing: Object) -> None:
    cluster = KubernetesCluster(api)
    await cluster.create(thing)
    await cluster.create(thing)


async def mark_twice(api: AsyncKubeApi) -> None:
    cluster = KubernetesCluster(api)
    made = await cluster.hold(marked(None, UID, "m1", "m0", NOW))
    assert await cluster.hold(marked(made, UID, "m2", "m1", NOW))


async def review(api: AsyncKubeApi) -> None:
    """Raises what the API server says, of which the queue says less to callers."""

    async def ask(method: str, path: str, *, body: Any = None) -> Any:
        return await api.request(method, path, body=body)

    token = jwt.encode({"iss": "https://kubernetes.default.svc", "exp": 60}, "k" * 32)  # one that may be sent
    try:
        await PodTokens(ask).verify(token, PLAN, 0.0)
    except Rejected:
        return
    except Unverifiable as error:
        raise (error.__context__ or error) from None


OPERATIONS: dict[str, Callable[[AsyncKubeApi], Awaitable[object]]] = {
    "create services": lambda api: KubernetesCluster(api).create(SERVICE),
    "get services": lambda api: create_twice(api, SERVICE),
    "create jobs": lambda api: KubernetesCluster(api).create(JOB),
    "get jobs": lambda api: create_twice(api, JOB),
    "delete jobs": lambda api: KubernetesCluster(api).stop(held(JOB), None),
    "patch jobs": lambda api: KubernetesCluster(api).stop(held(JOB), "{}"),
    "patch pods": lambda api: KubernetesCluster(api).release([held({**POD, "metadata": ABOUT})]),
    "get pods/log": output,
    "list events": lambda api: KubernetesCluster(api).warnings(NAMESPACE),
    "list jobs": lambda api: api.list_all(mirror.JOBS),
    "list pods": lambda api: api.list_all(mirror.PODS),
    "list nodes": lambda api: api.list_all(mirror.NODES),
    "watch jobs": lambda api: watched(api, mirror.JOBS),
    "watch pods": lambda api: watched(api, mirror.PODS),
    "watch nodes": lambda api: watched(api, mirror.NODES),
    "get leases": lambda api: KubernetesCluster(api).lease(),
    "create leases": lambda api: KubernetesCluster(api).hold(marked(None, UID, "m1", "m0", NOW)),
    "update leases": lambda api: mark_twice(api),
    "create tokenreviews": review,
}
"""What the queue does with each verb, by its own code. Nothing is there beforehand but POD."""


def test_the_roles_have_what_the_queue_uses_and_no_more() -> None:
    granted = [f"{verb} {resource}" for *_, resource, verb in (one.values for one in VERBS)]
    assert sorted(granted) == sorted(OPERATIONS)


@pytest.fixture(scope="module")
def applied(kube: Kube) -> Iterator[Kube]:
    """The environment with its accounts, and no queue."""
    kube.wipe()
    apply(kube, PLAN)
    kube.api.create(POD)
    with kube.still("kube-controller-manager"):  # so that a Job has no pods
        yield kube
    kube.wipe()


@pytest.fixture
def nothing_there(applied: Kube) -> Iterator[Kube]:
    yield applied
    _forget(applied)


@pytest.mark.parametrize(("role", "number", "resource", "verb"), VERBS)
def test_each_right_is_needed(
    nothing_there: Kube, control_plane: Any, role: str, number: int, resource: str, verb: str
) -> None:
    kube = nothing_there
    rules = [dict(rule) for rule in ROLES[role]]
    whole = rules[number]
    others = [name for name in whole["resources"] if name != resource]
    left = [one for one in whole["verbs"] if one != verb]
    rules[number : number + 1] = [
        *([{**whole, "resources": others}] if others else []),
        *([{**whole, "resources": [resource], "verbs": left}] if left else []),
    ]

    def refusal() -> str:
        """What the queue's code says, as the account."""

        async def operated() -> None:
            async with AsyncKubeApi.connect(control_plane.kubeconfig, USERS[role]) as api:
                await OPERATIONS[f"{verb} {resource}"](api)

        try:
            asyncio.run(operated())
        except GpupoolError as error:
            return str(error)
        return ""

    assert "cannot" not in refusal(), "with all its rights"
    _forget(kube)
    _set(kube, role, rules)
    try:
        wanted = (f'cannot {verb} resource "{resource}" in API group', USERS[role])
        end = time.monotonic() + 20
        while not all(text in (said := refusal()) for text in wanted):
            assert time.monotonic() < end, f"without {verb} {resource}: {said or 'nothing fails'}"
            _forget(kube)
            time.sleep(0.1)
    finally:
        _set(kube, role, ROLES[role])


def _set(kube: Kube, role: str, rules: list[Object]) -> None:
    where = {"kind": "Role", "namespace": SYSTEM_NAMESPACE} if role in LOCAL else {"kind": "ClusterRole"}
    kube.api.patch(
        "rbac.authorization.k8s.io/v1", where["kind"], role, {"rules": rules}, where.get("namespace")
    )


def _forget(kube: Kube) -> None:
    if kube.api.get("batch/v1", "Job", NAME, NAMESPACE):
        kube.api.delete("batch/v1", "Job", NAME, NAMESPACE)
        kube.api.patch("batch/v1", "Job", NAME, {"metadata": {"finalizers": None}}, NAMESPACE)
    kube.api.delete("v1", "Service", NAME, NAMESPACE)
    kube.api.delete("coordination.k8s.io/v1", "Lease", LEASE, SYSTEM_NAMESPACE)
