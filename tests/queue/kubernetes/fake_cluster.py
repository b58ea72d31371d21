"""A cluster in memory behind the launcher's port, for tests that kill the launcher hundreds of times.

It has what the launcher depends on and nothing else: resourceVersions, finalizers, deletion in foreground and
background, the Job controller, a kubelet that does what the test says, and watches that can be cut, held back
or too old. `conformance.py` keeps it true to a real control plane.
"""

from __future__ import annotations

import asyncio
import copy
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from gpupool.environment.plan.model import SYSTEM_NAMESPACE
from gpupool.environment.plan.pods import ATTEMPT_LABEL, JOB_LABEL, LEASE, RECORDED_FINALIZER
from gpupool.findings import GpupoolError
from gpupool.live.cluster.async_api import Gone
from gpupool.live.cluster.kube_api import UnreachableError
from gpupool.queue.kubernetes.cluster import ObjectRefused
from gpupool.queue.kubernetes.mirror import CONTROLLER_UID
from gpupool.queue.kubernetes.observe import VERDICT

Object = dict[str, Any]
Place = tuple[str, str, str]
"""(kind, namespace, name)"""
TRACKED = "batch.kubernetes.io/job-tracking"
FOREGROUND = "foregroundDeletion"
INDEX = "batch.kubernetes.io/job-completion-index"


class FakeCluster:
    """Everything settles at once: when a call returns, the controllers have done what follows from it."""

    def __init__(
        self,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        namespaces: Sequence[str] = ("team-vision",),
    ) -> None:
        self.now = now
        self.namespaces = namespaces
        self.reader = self
        self.objects: dict[Place, Object] = {}
        self.created: Counter[Place] = Counter()
        """How many objects each name has had."""
        self.obeys: int | None = 143
        """Exit code of a container that is asked to end; None: it goes on."""
        self.most_pods = 9
        """What a quota lets each Job have."""
        self.refuses_services = False
        self.down: GpupoolError | None = None
        """What looking at the Lease raises."""
        self.moved = False
        """Whether the file that says where the cluster is was written again."""
        self.held: set[str] = set()
        """Kinds of which watches tell nothing for now."""
        self.warned: list[str] = []
        self.lines: list[bytes] = []
        """The output of every pod."""
        self.cut_output = False
        self._version = 0
        self._compacted = 0
        self._history: list[tuple[int, str, Object]] = []
        self._generation = 0
        self._tick = asyncio.Event()
        self._counted: dict[str, dict[str, bool]] = {}
        """uid of a Job -> uid of an ended pod -> whether it succeeded."""

    # What the launcher calls.

    server = "https://cluster.example"

    def changed(self) -> bool:
        return self.moved

    async def renew(self) -> None:
        self.moved = False

    async def lease(self) -> Object | None:
        if self.down is not None:
            raise self.down
        return copy.deepcopy(self.objects.get(("Lease", SYSTEM_NAMESPACE, LEASE)))

    async def hold(self, lease: Object) -> Object | None:
        if self.down is not None:
            raise self.down
        there, about = self.objects.get(place(lease)), lease["metadata"]
        if there is None:
            return None if "resourceVersion" in about else copy.deepcopy(self.add(lease))
        if about.get("resourceVersion") != there["metadata"]["resourceVersion"]:
            return None
        self.edit(there, lambda thing: thing.update(copy.deepcopy(lease)))
        return copy.deepcopy(self.objects[place(lease)])

    async def create(self, wanted: Object) -> Object:
        metadata = wanted["metadata"]
        if metadata["namespace"] not in self.namespaces:
            raise ObjectRefused(f'namespaces "{metadata["namespace"]}" not found', passing=True)
        if not re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", metadata["name"]):
            raise ObjectRefused(f"{metadata['name']}: metadata.name: Invalid value", passing=False)
        if wanted["kind"] == "Service" and self.refuses_services:
            raise ObjectRefused("exceeded quota: no services", passing=True)
        found = self.objects.get(place(wanted)) or self.add(wanted)
        ours, theirs = metadata["labels"], found["metadata"].get("labels") or {}
        if any(theirs.get(label) != ours[label] for label in (JOB_LABEL, ATTEMPT_LABEL)):
            raise ObjectRefused(f"{metadata['name']} exists and is not the queue's", passing=True)
        return copy.deepcopy(found)

    async def stop(self, job: Object, verdict: str | None) -> None:
        found = self._same(job)
        if found is None:
            return
        if verdict is not None:
            found["metadata"].setdefault("annotations", {})[VERDICT] = verdict
            self._changed(found)
        self.delete(found, foreground=True)

    async def release(self, things: Sequence[Object]) -> None:
        for thing in things:
            found = self._same(thing)
            if found is not None and RECORDED_FINALIZER in found["metadata"].get("finalizers", ()):
                found["metadata"]["finalizers"].remove(RECORDED_FINALIZER)
                self._changed(found)
        self.settle()

    async def warnings(self, namespace: str) -> dict[str, list[str]]:
        there = [thing["metadata"] for thing in self.objects.values()]
        return {about["uid"]: self.warned for about in there if about.get("namespace") == namespace}

    async def output(
        self, pod: Object, container: str, *, since: datetime | None, follow: bool
    ) -> AsyncIterator[bytes]:
        for line in self.lines:
            if since is None or datetime.fromisoformat(line.split(b" ")[0].decode()) >= since:
                yield line
        if self.cut_output:
            raise UnreachableError("cut")

    async def list_all(self, path: str, query: Mapping[str, str] | None = None) -> tuple[list[Object], str]:
        chosen = _selected(path, query)
        return [copy.deepcopy(thing) for thing in self.objects.values() if chosen(thing)], str(self._version)

    async def watch(
        self, path: str, version: str, query: Mapping[str, str] | None = None
    ) -> AsyncIterator[tuple[str, Object]]:
        """Until `cut`; where nothing is new, a bookmark."""
        chosen, seen, generation = _selected(path, query), int(version), self._generation
        while generation == self._generation:
            if seen < self._compacted:
                raise Gone("too old resource version")
            tick, held = self._tick, path.endswith(tuple(f"/{kind.lower()}s" for kind in self.held))
            for number, type, thing in [] if held else [one for one in self._history if one[0] > seen]:
                seen = number
                if chosen(thing):
                    yield type, copy.deepcopy(thing)
            yield "BOOKMARK", {"metadata": {"resourceVersion": str(seen)}}
            await tick.wait()

    # What the test does.

    def cut(self, *, forget: bool = False) -> None:
        """End all watches; with `forget` those that go on from an older version are refused with 410."""
        self._generation += 1
        if forget:
            self._compacted = self._version
        self._wake()

    def resume(self) -> None:
        """Watches that were held back tell what they have missed."""
        self.held.clear()
        self._wake()

    def of(self, kind: str) -> list[Object]:
        return [thing for (found, _, _), thing in self.objects.items() if found == kind]

    def add(self, wanted: Object) -> Object:
        """A new object."""
        thing = copy.deepcopy(wanted)
        self._version += 1
        at = place(thing)
        thing["metadata"] |= {"uid": f"uid-{self._version}", "creationTimestamp": text(self.now())}
        self.created[at] += 1
        self.objects[at] = thing
        self._changed(thing, "ADDED")
        self.settle()
        return thing

    def edit(self, thing: Object, change: Callable[[Object], None]) -> None:
        change(self.objects[place(thing)])
        self._changed(self.objects[place(thing)])
        self.settle()

    def delete(self, thing: Object, *, foreground: bool = False, grace_s: int | None = None) -> None:
        """In background unless said otherwise, as kubectl does."""
        thing = self.objects[place(thing)]
        metadata = thing["metadata"]
        if "deletionTimestamp" not in metadata:
            grace = (30 if grace_s is None else grace_s) if thing["spec"].get("nodeName") else 0
            metadata["deletionTimestamp"] = text(self.now() + timedelta(seconds=grace))
            metadata["deletionGracePeriodSeconds"] = grace
        if foreground and FOREGROUND not in metadata.get("finalizers", ()):
            metadata["finalizers"] = [*metadata.get("finalizers", ()), FOREGROUND]
        self._changed(thing)
        self.settle()

    def start(self, pod: Object, node: str = "node-0") -> None:
        """The pod gets a node and its container runs."""

        def run(pod: Object) -> None:
            at = text(self.now())
            scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at}
            running = {"name": "job", "state": {"running": {"startedAt": at}}}
            pod["spec"]["nodeName"] = node
            pod["status"] = {
                "phase": "Running",
                "startTime": at,
                "conditions": [scheduled],
                "containerStatuses": [running],
            }

        self.edit(pod, run)

    def end(self, pod: Object, code: int, disruption: str | None = None) -> None:
        """Its container ends; `disruption`: the reason of a condition DisruptionTarget."""

        def stop(pod: Object) -> None:
            status = pod["status"]
            running = status["containerStatuses"][0]["state"]["running"]
            ended = {
                "exitCode": code,
                "reason": "Completed" if code == 0 else "Error",
                "startedAt": running["startedAt"],
                "finishedAt": text(self.now()),
            }
            status["containerStatuses"][0]["state"] = {"terminated": ended}
            status["phase"] = "Failed" if code or disruption else "Succeeded"
            if disruption:
                status["conditions"].append(_true("DisruptionTarget", disruption, "by the test"))

        self.edit(pod, stop)

    # Controllers.

    def settle(self) -> None:
        """Controllers act until nothing follows any more."""
        while any(self._step(thing) for thing in list(self.objects.values())):
            pass

    def _step(self, thing: Object) -> bool:
        if self.objects.get(place(thing)) is not thing:
            return False
        metadata = thing["metadata"]
        if "deletionTimestamp" in metadata and not metadata.get("finalizers") and _may_go(thing):
            del self.objects[place(thing)]
            self._changed(thing, "DELETED")
            return True
        owners = {thing["metadata"]["uid"] for thing in self.of("Job")}
        if "deletionTimestamp" not in metadata and _owner(thing) not in (None, *owners):
            self.delete(thing)  # as the garbage collector does
            return True
        return self._pod(thing) if thing["kind"] == "Pod" else thing["kind"] == "Job" and self._job(thing)

    def _pod(self, pod: Object) -> bool:
        """Kubelet, collector of pods that never ran."""
        metadata, status = pod["metadata"], pod["status"]
        if "deletionTimestamp" not in metadata:
            return False
        if status["phase"] == "Pending":
            status["phase"] = "Failed"
            self._changed(pod)
            return True
        if status["phase"] == "Running" and self.obeys is not None:
            self.end(pod, self.obeys)
            return True
        return False

    def _job(self, job: Object) -> bool:
        """The Job controller, and what foreground deletion does."""
        metadata, spec, status = job["metadata"], job["spec"], job.setdefault("status", {})
        pods = [pod for pod in self.of("Pod") if _owner(pod) == metadata["uid"]]
        counted = self._counted.setdefault(metadata["uid"], {})
        for pod in pods:
            if pod["status"]["phase"] in ("Succeeded", "Failed") and TRACKED in pod["metadata"]["finalizers"]:
                counted[pod["metadata"]["uid"]] = pod["status"]["phase"] == "Succeeded"
                pod["metadata"]["finalizers"].remove(TRACKED)
                self._changed(pod)
                return True
        if FOREGROUND in metadata.get("finalizers", ()):
            for pod in pods:
                if "deletionTimestamp" not in pod["metadata"]:
                    self.delete(pod)
                    return True
            if not pods:
                metadata["finalizers"].remove(FOREGROUND)
                self._changed(job)
                return True
        conditions = {one["type"] for one in status.get("conditions", ())}
        active = [pod for pod in pods if pod["metadata"]["uid"] not in counted]
        if {"Failed", "Complete"} & conditions:
            return False
        if False in counted.values():
            for pod in active:
                if "deletionTimestamp" not in pod["metadata"]:
                    self.delete(pod)
                    return True
            type = "FailureTarget" if active else "Failed"
            return type not in conditions and self._condition(job, type, "BackoffLimitExceeded")
        if len(counted) == spec["completions"]:
            status["completionTime"] = text(self.now())
            return self._condition(job, "Complete", "CompletionsReached")
        most = min(spec["parallelism"], self.most_pods)
        if "deletionTimestamp" in metadata or len(active) + len(counted) >= most:
            return False
        self._create_pod(job, len(active) + len(counted))
        return True

    def _create_pod(self, job: Object, index: int) -> None:
        template, metadata = job["spec"]["template"], job["metadata"]
        self.add(
            {
                "kind": "Pod",
                "metadata": {
                    **copy.deepcopy(template["metadata"]),
                    "labels": {**template["metadata"].get("labels", {}), CONTROLLER_UID: metadata["uid"]},
                    "name": f"{metadata['name']}-{index}",
                    "namespace": metadata["namespace"],
                    "annotations": {**template["metadata"].get("annotations", {}), INDEX: str(index)},
                    "finalizers": [*template["metadata"].get("finalizers", ()), TRACKED],
                    "ownerReferences": [{"kind": "Job", "uid": metadata["uid"]}],
                },
                "spec": copy.deepcopy(template["spec"]),
                "status": {"phase": "Pending"},
            }
        )

    def _condition(self, job: Object, type: str, reason: str) -> bool:
        job["status"].setdefault("conditions", []).append(_true(type, reason, f"{type} in the fake"))
        self._changed(job)
        return True

    def _same(self, thing: Object) -> Object | None:
        """The object as it is now, if it is still the same one."""
        at = place({"kind": "Job" if "template" in thing["spec"] else "Pod", **thing})
        found = self.objects.get(at)
        return found if found and found["metadata"]["uid"] == thing["metadata"]["uid"] else None

    def _changed(self, thing: Object, type: str = "MODIFIED") -> None:
        self._version += 1
        thing["metadata"]["resourceVersion"] = str(self._version)
        self._history.append((self._version, type, copy.deepcopy(thing)))
        self._wake()

    def _wake(self) -> None:
        tick, self._tick = self._tick, asyncio.Event()
        tick.set()


def place(thing: Object) -> Place:
    return thing["kind"], thing["metadata"].get("namespace", ""), thing["metadata"]["name"]


def text(at: datetime) -> str:
    """As the API server writes times: whole seconds."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _owner(pod: Object) -> str | None:
    return next((owner["uid"] for owner in pod["metadata"].get("ownerReferences", ())), None)


def _may_go(thing: Object) -> bool:
    """A pod goes once its containers have ended."""
    return thing["kind"] != "Pod" or thing["status"]["phase"] in ("Succeeded", "Failed")


def _true(type: str, reason: str, message: str) -> Object:
    return {"type": type, "status": "True", "reason": reason, "message": message}


def _selected(path: str, query: Mapping[str, str] | None) -> Callable[[Object], bool]:
    kind, terms = path.rpartition("/")[2][:-1].capitalize(), (query or {}).get("labelSelector", "").split(",")

    def chosen(thing: Object) -> bool:
        labels = thing["metadata"].get("labels") or {}
        if thing["kind"] != kind:
            return False
        for term in filter(None, terms):
            name, _, value = term.partition("=")
            if (
                (name[1:] in labels)
                if name[0] == "!"
                else (labels.get(name) != value if value else name not in labels)
            ):
                return False
        return True

    return chosen
