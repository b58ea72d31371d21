"""A copy of what the cluster has: the queue's Jobs and pods, nodes, and what other pods hold of GPUs.

Listed, then watched, and listed again from time to time: the list is the truth, the watch only faster. A
watch that ends, is cut, says 410 or stays silent is opened again. A pod of ours that vanishes stays here
until its attempt is recorded: in its last form if it had ended, as a failed one if not (`_as_failed`). Which
pods of others hold GPUs is judged here, because little of them is kept (`_foreign`). What an attempt's Job
and pods mean, `observe` judges. This module writes nothing to the cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import structlog

from gpupool.environment.plan.model import POOL_LABEL
from gpupool.environment.plan.pods import ATTEMPT_LABEL, JOB_LABEL, RECORDED_FINALIZER
from gpupool.findings import GpupoolError
from gpupool.queue.kubernetes.job_manifest import name_of

log = structlog.get_logger()

Object = dict[str, Any]
Key = tuple[str, int]
"""(job, attempt)"""

RESYNC_S = 60.0
"""A watch is given up after so long, and everything listed again."""
OTHERS_S = 300.0
"""The same for pods that are not the queue's: to list all pods of a large cluster costs much."""
LEAST_S = 0.2
"""A watch that is closed at once, as a proxy may, is opened again only after so long."""
CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
"""The Job controller's label of its pods."""
JOBS = "/apis/batch/v1/jobs"
PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"
OURS = {"labelSelector": JOB_LABEL}
FAILING = 3
"""Failures of a watch in a row that are more than a server that restarts."""


class Reader(Protocol):
    """The part of `cluster.async_api.AsyncKubeApi` that is used here."""

    async def list_all(
        self, path: str, query: Mapping[str, str] | None = None
    ) -> tuple[list[Object], str]: ...

    def watch(
        self, path: str, version: str, query: Mapping[str, str] | None = None
    ) -> AsyncIterator[tuple[str, Object]]: ...


@dataclass(slots=True)
class _Source:
    """What one list and its watches say. `keep`: what is remembered of an object beside what `apply` does."""

    path: str
    query: Mapping[str, str]
    apply: Callable[[str, Object], None]
    resync_s: float
    keep: Callable[[Object], Object] = lambda item: item
    seen: dict[str, Object] = field(default_factory=dict)
    listed: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, type: str, item: Object) -> None:
        """Something changed."""
        uid = item["metadata"]["uid"]
        item["metadata"].pop("managedFields", None)  # half of what an object consists of
        if type == "DELETED":
            self.seen.pop(uid, None)
        else:
            self.seen[uid] = self.keep(item)
        self.apply(type, item)


@dataclass(slots=True)
class Mirror:
    """`changed` is called with each attempt of which something changed."""

    reader: Reader
    changed: Callable[[Key], None]
    jobs: dict[Key, Object] = field(default_factory=dict)
    pods: dict[Key, dict[str, Object]] = field(default_factory=dict)
    """Attempt -> uid -> pod."""
    gone: dict[Key, dict[str, Object]] = field(default_factory=dict)
    """The same of pods that have vanished, until `forget`."""
    nodes: dict[str, Object] = field(default_factory=dict)
    foreign: dict[str, Object] = field(default_factory=dict)
    """uid -> pod that holds GPUs on a node of a pool and is not the queue's."""
    synced: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once everything has been listed."""
    failing: dict[tuple[str, str], GpupoolError] = field(default_factory=dict)
    """What is not followed at present, and why not."""
    _foreign_changed: bool = field(default=True, init=False)

    def note_created(self, key: Key, job: Object) -> None:
        """The launcher has created this Job; the watch may be ahead of the answer, or behind it."""
        self.jobs.setdefault(key, job)

    def take_foreign_changed(self) -> bool:
        """Whether `foreign` or `nodes` have changed since this was last called."""
        changed, self._foreign_changed = self._foreign_changed, False
        return changed

    def pods_of(self, key: Key) -> list[Object]:
        pods = (*self.pods.get(key, {}).values(), *self.gone.get(key, {}).values())
        return [pod for pod in pods if self._is_of_its_job(key, pod)]

    def _is_of_its_job(self, key: Key, pod: Object) -> bool:
        """Labels can be forged where a policy only warns. (A pod keeps this one when its Job is deleted
        without it, and loses its owner.)"""
        job = self.jobs.get(key)
        if job is None:
            return True
        about, label = pod["metadata"], (pod["metadata"].get("labels") or {}).get(CONTROLLER_UID)
        return bool(label == job["metadata"]["uid"] and about["namespace"] == job["metadata"]["namespace"])

    def forget(self, key: Key) -> None:
        """The attempt is recorded: what is kept of its vanished pods goes."""
        self.gone.pop(key, None)

    async def is_behind(self, key: Key) -> bool:
        """Whether the cluster has a Job or pod of an attempt that the watches have not shown yet."""
        selector = {"labelSelector": f"{JOB_LABEL}={key[0]},{ATTEMPT_LABEL}={key[1]}"}
        known = {thing["metadata"]["uid"] for thing in (self.jobs.get(key), *self.pods_of(key)) if thing}
        jobs, _ = await self.reader.list_all(JOBS, selector)
        pods, _ = await self.reader.list_all(PODS, selector)
        own = (job for job in jobs if job["metadata"]["name"] == name_of(*key))
        its = [*own, *(pod for pod in pods if self._is_of_its_job(key, pod))]
        return any(thing["metadata"]["uid"] not in known for thing in its)

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        ours, others = OURS, {"labelSelector": f"!{JOB_LABEL}"}
        sources = (
            _Source(NODES, {"labelSelector": POOL_LABEL}, self._node, RESYNC_S, _named),
            _Source(JOBS, ours, self._job, RESYNC_S),
            _Source(PODS, ours, self._pod, RESYNC_S),
            _Source(PODS, others, self._foreign, OTHERS_S, _named),
        )
        try:
            async with asyncio.TaskGroup() as group:
                for source in sources:
                    group.create_task(self._follow(source))
                for source in sources:
                    await source.listed.wait()
                self.synced.set()
        finally:
            self.synced.clear()

    async def _follow(self, source: _Source) -> None:
        failures, which = 0, (source.path, source.query["labelSelector"])
        while True:
            try:
                version = await self._list(source)
                source.listed.set()
                self.failing.pop(which, None)
                opened = time.monotonic()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(source.resync_s * random.uniform(0.8, 1.2)):  # noqa: S311
                        async for type, item in self.reader.watch(source.path, version, source.query):
                            failures = 0
                            if type != "BOOKMARK":
                                source.take(type, item)
                failures = 0
                await asyncio.sleep(opened + LEAST_S - time.monotonic())
            except GpupoolError as error:  # 410, throttled, refused, or no answer
                failures += 1
                pause = min(10.0, 0.2 * 2**failures) * random.uniform(0.5, 1)  # noqa: S311
                if failures >= FAILING:
                    self.failing[which] = error
                if failures > 1:
                    log.warning("cluster.watch", path=source.path, error=str(error), failures=failures)
                await asyncio.sleep(pause)

    async def _list(self, source: _Source) -> str:
        """Take over what is there now; the version to watch from."""
        items, version = await self.reader.list_all(source.path, source.query)
        fresh = {item["metadata"]["uid"] for item in items}
        for uid in source.seen.keys() - fresh:
            source.take("DELETED", source.seen[uid])
        for item in items:
            before = source.seen.get(item["metadata"]["uid"])
            if before is None or _version(before) != _version(item):
                source.take("MODIFIED", item)
        return version

    def _job(self, type: str, job: Object) -> None:
        key = key_of(job)
        if key is None or job["metadata"]["name"] != name_of(*key):
            return  # a copy with our labels
        if type != "DELETED":
            self.jobs[key] = job
        elif key in self.jobs and self.jobs[key]["metadata"]["uid"] == job["metadata"]["uid"]:
            del self.jobs[key]
        self.changed(key)

    def _pod(self, type: str, pod: Object) -> None:
        key = key_of(pod)
        if key is None:
            return
        uid = pod["metadata"]["uid"]
        if type == "DELETED":
            self.gone.setdefault(key, {})[uid] = pod if _has_ended(pod) else _as_failed(pod)
            left = self.pods.get(key, {})
            left.pop(uid, None)
            if not left:
                self.pods.pop(key, None)
        else:
            self.pods.setdefault(key, {})[uid] = pod
        self.changed(key)

    def _node(self, type: str, node: Object) -> None:
        name = node["metadata"]["name"]
        before = self.nodes.get(name)
        if type == "DELETED":
            self.nodes.pop(name, None)
        else:
            slim = {"metadata": {"name": name, "labels": node["metadata"].get("labels") or {}}}
            self.nodes[name] = {**slim, "spec": {"taints": node.get("spec", {}).get("taints") or []}}
        if self.nodes.get(name) == before:
            return
        self._foreign_changed = True
        for key, pods in self.pods.items():
            if any(pod["spec"].get("nodeName") == name for pod in pods.values()):
                self.changed(key)

    def _foreign(self, type: str, pod: Object) -> None:
        """Keep of a pod of others what `foreign_pods` counts, while it holds GPUs: it has a node, asks for
        some, and has not ended."""
        uid, spec = pod["metadata"]["uid"], pod.get("spec", {})
        slim = {
            "metadata": {"name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"]},
            "spec": {
                "nodeName": spec.get("nodeName"),
                "initContainers": [_slim(one) for one in spec.get("initContainers") or ()],
                "containers": [_slim(one) for one in spec.get("containers") or ()],
            },
        }
        holds = (
            type != "DELETED"
            and spec.get("nodeName")
            and not _has_ended(pod)
            and "nvidia.com/" in str(slim["spec"])
        )
        if holds:
            if self.foreign.get(uid) != slim:
                self.foreign[uid] = slim
                self._foreign_changed = True
        elif self.foreign.pop(uid, None) is not None:
            self._foreign_changed = True


def key_of(thing: Object) -> Key | None:
    """The attempt whose Job or pod this is, by its labels."""
    labels = thing["metadata"].get("labels") or {}
    job, attempt = labels.get(JOB_LABEL), labels.get(ATTEMPT_LABEL, "")
    return (job, int(attempt)) if job and attempt.isdigit() else None


def is_held(thing: Object) -> bool:
    """Whether our finalizer is on it: its end is not recorded yet."""
    return RECORDED_FINALIZER in (thing["metadata"].get("finalizers") or ())


def _has_ended(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _as_failed(pod: Object) -> Object:
    """A pod that vanished before its end was seen: nothing of it runs any longer, whatever it said last, and
    it did not end by itself. Where nobody was seen to delete it, the time of its deletion is unknown; that of
    its creation is before all that it did, so that no end counts as its own."""
    metadata = {"deletionTimestamp": pod["metadata"]["creationTimestamp"], **pod["metadata"]}
    return {**pod, "metadata": metadata, "status": {**pod.get("status", {}), "phase": "Failed"}}


def _version(thing: Object) -> str:
    return str(thing["metadata"]["resourceVersion"])


def _named(item: Object) -> Object:
    """Enough to know that it changed, and that it is gone."""
    about = item["metadata"]
    return {"metadata": {k: about[k] for k in ("name", "namespace", "uid", "resourceVersion") if k in about}}


def _slim(container: Object) -> Object:
    limits = (container.get("resources") or {}).get("limits") or {}
    gpus = {name: count for name, count in limits.items() if name.startswith("nvidia.com/")}
    return {"restartPolicy": container.get("restartPolicy"), "resources": {"limits": gpus}}
