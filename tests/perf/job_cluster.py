"""A control plane with fake GPU nodes, and how long Jobs take on it from submission to a node.

Who submits the Jobs is given as a function; the cluster, its policies, the pods and what is measured are the
same for all. Times are those at which a watch of this process sees a change. Pods run for `RUN_S`, as KWOK
plays them: jobs for GPUs last longer than it takes to start them all.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import statistics
import time
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import yaml

from gpupool.generators import generate
from gpupool.generators.kinds import KINDS
from gpupool.local.components import JOB_SECONDS_VARIABLE
from gpupool.local.control_plane import ControlPlane
from gpupool.plan.model import Plan
from gpupool.plan.pods import RECORDED_FINALIZER
from gpupool.plan.resolve import resolve
from gpupool.spec.load import load
from tests.cluster.operator_policy import hand_made_policy
from tests.perf.measure import Failed

TENANTS = 10
POOL = "bench"
FULL = "full"
"""A pool of one GPU, and no node: the first job that asks for it holds it for ever."""
GPU = "nvidia.com/gpu"
NODES, GPUS = 150, 8
IN_FLIGHT = 32
RUN_S = 30
_PATIENCE_S = 240.0
_ADMISSION = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ResourceQuota", "LimitRange")
_APART = ("karpenter", "gpu-operator")
"""Parts of the control plane that have nothing to do with Jobs."""


@dataclass
class Seen:
    """When what happened to each Job, by its name; seconds of one clock."""

    asked: dict[str, float] = field(default_factory=dict)
    """Before the request."""
    accepted: dict[str, float] = field(default_factory=dict)
    """After its answer."""
    created: dict[str, float] = field(default_factory=dict)
    unsuspended: dict[str, float] = field(default_factory=dict)
    bound: dict[str, float] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)

    def between(self, first: str, then: str) -> list[float]:
        """Milliseconds from one to the other, of each Job."""
        begin, end = getattr(self, first), getattr(self, then)
        return [max(0.0, end[name] - begin[name]) * 1000 for name in begin if name in end]


@dataclass(frozen=True)
class Measured:
    """One run."""

    seen: Seen
    per_second: float
    """Jobs whose pods were bound, from the first request to the last of them."""
    cpu_ms: float
    """Processor time of all processes that are measured, each Job."""


Submit = Callable[[aiohttp.ClientSession, int], Awaitable[list[str]]]
"""Sends request number n; the names of the Jobs that it makes."""


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")


def median(values: list[float]) -> float:
    return statistics.median(values) if values else float("nan")


class Cluster:
    """A running control plane with the environment's objects and nodes."""

    def __init__(self, plane: ControlPlane, environment: Path) -> None:
        self.plane = plane
        self.environment = environment
        self.plan: Plan = resolve(load(environment))
        config = yaml.safe_load(plane.kubeconfig.read_text())
        self.server = config["clusters"][0]["cluster"]["server"]
        self.headers = {"Authorization": f"Bearer {config['users'][0]['user']['token']}"}
        self.namespaces = [tenant.namespace for tenant in self.plan.tenants]
        self._trust = ssl.create_default_context(cafile=str(plane.layout.certificate))

    def session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            self.server,
            headers=self.headers,
            connector=aiohttp.TCPConnector(ssl=self._trust, limit=0),
            timeout=aiohttp.ClientTimeout(None),
        )

    async def create(self, session: aiohttp.ClientSession, job: dict[str, Any]) -> list[str]:
        namespace = job["metadata"]["namespace"]
        async with session.post(f"/apis/batch/v1/namespaces/{namespace}/jobs", json=job) as answer:
            if answer.status != 201:
                raise Failed(f"a Job was refused: {(await answer.text())[:500]}")
        return [str(job["metadata"]["name"])]

    def cpu(self, others: Collection[int]) -> float:
        """Seconds that the control plane and `others` have computed so far, with all their children."""
        parts = [part.pid for part in self.plane.status().components if part.name not in _APART]
        total = 0.0
        for pid in (*filter(None, parts), *others):
            for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
                with suppress(psutil.Error):
                    total += sum(process.cpu_times()[:4])  # its own, and that of children that have ended
        return total

    def run(
        self, submit: Submit, requests: int, per_second: float | None = None, others: Collection[int] = ()
    ) -> Measured:
        """Send requests in a burst, or so many a second, wait until their pods are bound, and remove them."""
        return asyncio.run(self._run(submit, requests, per_second, others))

    async def _run(
        self, submit: Submit, requests: int, per_second: float | None, others: Collection[int]
    ) -> Measured:
        seen = Seen()
        async with self.session() as session:
            watches = [asyncio.create_task(self._watch(session, seen, kind)) for kind in ("jobs", "pods")]
            await asyncio.sleep(1)
            before, began = self.cpu(others), time.perf_counter()
            if per_second is None:
                await _burst(session, submit, requests, seen)
            else:
                await _paced(session, submit, requests, per_second, seen)
            jobs, end = len(seen.accepted), time.monotonic() + _PATIENCE_S
            while not seen.accepted.keys() <= seen.bound.keys():
                if time.monotonic() > end:
                    missing = len(seen.accepted.keys() - seen.bound.keys())
                    raise Failed(f"{missing} of {jobs} Jobs have no bound pod after {_PATIENCE_S:.0f} s")
                await asyncio.sleep(0.02)
            cpu = self.cpu(others) - before
            await self._settled(session, seen)
            for watch in watches:
                watch.cancel()
            await asyncio.gather(*watches, return_exceptions=True)
            last = max(seen.bound[name] for name in seen.accepted)
            await self._remove(session)
        return Measured(seen, jobs / (last - began), cpu / jobs * 1000)

    async def _watch(self, session: aiohttp.ClientSession, seen: Seen, kind: str) -> None:
        """Note what happens, from the present on; a watch that the server closes is opened again."""
        path = f"/{'apis/batch/v1' if kind == 'jobs' else 'api/v1'}/{kind}"
        async with session.get(path, params={"limit": "1"}) as answer:
            version = (await answer.json())["metadata"]["resourceVersion"]
        while True:
            params = {"watch": "true", "resourceVersion": version}
            async with session.get(path, params=params, timeout=aiohttp.ClientTimeout(None)) as answer:
                rest = b""
                async for chunk in answer.content.iter_any():
                    now = time.perf_counter()
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        thing = json.loads(line)["object"]
                        version = thing["metadata"].get("resourceVersion", version)
                        (_note_job if kind == "jobs" else _note_pod)(seen, thing, now)

    async def _settled(self, session: aiohttp.ClientSession, seen: Seen) -> None:
        """Until every Job has ended, and its queue has had the time to see that."""
        end = time.monotonic() + _PATIENCE_S
        while not seen.accepted.keys() <= seen.ended:
            if time.monotonic() > end:
                raise Failed(f"{len(seen.accepted.keys() - seen.ended)} Jobs do not end")
            await asyncio.sleep(0.1)
        await asyncio.sleep(3)

    async def _remove(self, session: aiohttp.ClientSession) -> None:
        """All Jobs that have ended and their pods, so that the next run begins with nothing."""
        end = time.monotonic() + _PATIENCE_S
        ended = {"/apis/batch/v1/jobs": "status.successful=1", "/api/v1/pods": "status.phase=Succeeded"}
        while True:
            left = 0
            for namespace in self.namespaces:
                path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
                params = {"propagationPolicy": "Background", "fieldSelector": "status.successful=1"}
                async with session.delete(path, params=params) as answer:
                    answer.raise_for_status()
            for path, selector in ended.items():
                async with session.get(path, params={"fieldSelector": selector}) as answer:
                    things = (await answer.json())["items"]
                await _release(session, path.rpartition("/")[2], things)
                left += len(things)
            if not left:
                return
            if time.monotonic() > end:
                raise Failed("Jobs or pods of an earlier run do not go")
            await asyncio.sleep(1)


async def _release(session: aiohttp.ClientSession, plural: str, things: list[dict[str, Any]]) -> None:
    """Take the queue's finalizer off what still has it: no queue does of what was created directly."""
    root = "/apis/batch/v1" if plural == "jobs" else "/api/v1"
    body = {"metadata": {"$deleteFromPrimitiveList/finalizers": [RECORDED_FINALIZER]}}
    headers = {"Content-Type": "application/strategic-merge-patch+json"}
    waiting = iter([thing["metadata"] for thing in things])

    async def several() -> None:
        for about in waiting:
            if RECORDED_FINALIZER in about.get("finalizers", ()):
                path = f"{root}/namespaces/{about['namespace']}/{plural}/{about['name']}"
                async with session.patch(path, json=body, headers=headers) as answer:
                    if answer.status != 404:
                        answer.raise_for_status()

    await asyncio.gather(*(several() for _ in range(IN_FLIGHT)))


def _note_job(seen: Seen, job: dict[str, Any], now: float) -> None:
    name = job["metadata"]["name"]
    seen.created.setdefault(name, now)
    if not job["spec"].get("suspend"):
        seen.unsuspended.setdefault(name, now)
    if job["status"].get("completionTime"):
        seen.ended.add(name)


def _note_pod(seen: Seen, pod: dict[str, Any], now: float) -> None:
    name = pod["metadata"].get("labels", {}).get("batch.kubernetes.io/job-name")
    if name and pod["spec"].get("nodeName"):
        seen.bound.setdefault(name, now)


async def _one(session: aiohttp.ClientSession, submit: Submit, number: int, seen: Seen) -> None:
    asked = time.perf_counter()
    names = await submit(session, number)
    seen.asked.update(dict.fromkeys(names, asked))
    seen.accepted.update(dict.fromkeys(names, time.perf_counter()))


async def _burst(session: aiohttp.ClientSession, submit: Submit, requests: int, seen: Seen) -> None:
    numbers = iter(range(requests))

    async def several() -> None:
        for number in numbers:
            await _one(session, submit, number, seen)

    await asyncio.gather(*(several() for _ in range(IN_FLIGHT)))


async def _paced(
    session: aiohttp.ClientSession, submit: Submit, requests: int, per_second: float, seen: Seen
) -> None:
    began, tasks = time.perf_counter(), []
    for number in range(requests):
        await asyncio.sleep(max(0.0, began + number / per_second - time.perf_counter()))
        tasks.append(asyncio.create_task(_one(session, submit, number, seen)))
    await asyncio.gather(*tasks)


@contextmanager
def cluster(folder: Path, *, enforced: bool) -> Iterator[Cluster]:
    """A control plane with the environment applied, and its nodes; gone afterwards. `enforced`: with its
    policies, quotas and limits."""
    environment = _environment(folder)
    plane = ControlPlane(folder / "local")
    os.environ[JOB_SECONDS_VARIABLE] = str(RUN_S)
    try:
        plane.up(lambda _: None)
        for part in plane.status().components:
            if part.name in _APART and part.pid:
                os.kill(part.pid, signal.SIGKILL)
        made = Cluster(plane, environment)
        _fill(made, enforced)
        yield made
    finally:
        plane.down()


def _environment(folder: Path) -> Path:
    limits = {POOL: {"gpus": NODES * GPUS}, FULL: {"gpus": 1}}
    tenants = [
        {"name": f"tenant-{number}", "namespace": f"team-{number}", "pools": limits}
        for number in range(TENANTS)
    ]
    pools = [
        {
            "name": name,
            "gpu": "l4",
            "overcommit": True,
            "nodes": {"selector": {"rack": name}, "gpus": gpus, "max": nodes},
        }
        for name, gpus, nodes in ((POOL, GPUS, NODES), (FULL, 1, 1))
    ]
    given = {
        "apiVersion": "gpupool.dev/v1alpha1",
        "kind": "Environment",
        "metadata": {"name": "jobs"},
        "cluster": {"platform": "static", "name": "jobs"},
        "gpuOperator": {"install": False},
        "pools": pools,
        "priorities": [{"name": "normal", "value": 100, "level": "medium", "preemptible": True}],
        "tenants": tenants,
    }
    path = folder / "jobs.yaml"
    path.write_text(json.dumps(given, indent=2))
    return path


def _fill(cluster: Cluster, enforced: bool) -> None:
    api, pool = cluster.plane.api(), cluster.plan.pool(POOL)
    manifests = [one for one in generate(cluster.plan) if enforced or one.kind not in _ADMISSION]
    api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-operator"}}, "bench")
    api.apply(hand_made_policy(), "bench")
    for kind in KINDS:
        for manifest in manifests:
            if manifest.kind == kind.name:
                api.apply(dict(manifest.body), "gpupool", force=True)
    labels = {**pool.labels, **pool.node_selector, "nvidia.com/gpu.present": "true"}
    offered = {"cpu": "64", "memory": "256Gi", "pods": "110", GPU: str(GPUS)}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    for number in range(NODES):
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"node-{number:03}", "labels": labels},
            "spec": {"taints": [taint.as_dict() for taint in pool.taints]},
            "status": {"capacity": offered, "allocatable": offered, "conditions": [ready]},
        }
        api.create(body)
