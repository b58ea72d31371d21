"""What the launcher asks of a cluster, as a port, and the real one.

Each call may be repeated: creating what exists, deleting what is gone and releasing what is released change
nothing.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Protocol

from gpupool.environment.plan.pods import ATTEMPT_LABEL, JOB_LABEL, RECORDED_FINALIZER
from gpupool.findings import GpupoolError
from gpupool.live.cluster.async_api import AsyncKubeApi
from gpupool.live.cluster.kube_api import JSON, MERGE, STRATEGIC, ApiError
from gpupool.queue.kubernetes.lease import LEASE_PATH
from gpupool.queue.kubernetes.mirror import Object, Reader
from gpupool.queue.kubernetes.observe import VERDICT
from gpupool.queue.kubernetes.warnings import cause

MOST_WARNINGS = 3
"""Of one object; earlier ones say less."""
_DENIED = re.compile(r"\bdenied (the )?request\b|\bfailed calling webhook\b")
"""What a policy or a webhook refuses, with a status of its choice, or a webhook that is away (500)."""
_LEFT_OUT = "$deleteFromPrimitiveList/finalizers"
"""What a strategic merge patch takes off the list (Kubernetes documentation, Update API Objects)."""


class ObjectRefused(GpupoolError):
    """The cluster does not take the object: a policy, a quota, a field. `passing`: it may later."""

    def __init__(self, message: str, *, passing: bool) -> None:
        super().__init__(message)
        self.passing = passing


class Cluster(Protocol):
    """Errors of all calls: GpupoolError where the cluster does not answer or refuses."""

    reader: Reader

    @property
    def server(self) -> str:
        """Its address, for people."""
        ...

    def changed(self) -> bool:
        """Whether the file that says where it is, and who may do what there, is another one now."""
        ...

    async def renew(self) -> None:
        """Read that file again: from now on this may be another cluster."""
        ...

    async def lease(self) -> Object | None:
        """What says whose the cluster is; None where there is nothing."""
        ...

    async def hold(self, lease: Object) -> Object | None:
        """Create it, or replace the version that this one was made of; as it is then, None where somebody
        else was quicker."""
        ...

    def now(self) -> datetime:
        """By the clock of the cluster, which is that of the times in its objects."""
        ...

    async def create(self, thing: Object) -> Object:
        """Create a Job or Service, unless it is there; as it is then. Raises ObjectRefused, also where
        another one has its name."""
        ...

    async def stop(self, job: Object, verdict: str | None) -> None:
        """Ask for the end of this very Job and its pods, each with its grace. `verdict`: kept on the Job."""
        ...

    async def release(self, things: Sequence[Object]) -> None:
        """Take our finalizer off this Job or these pods: they may go."""
        ...

    async def warnings(self, namespace: str) -> dict[str, list[str]]:
        """What events of a namespace warn of: uid of the object -> the last word of each component on each
        reason, the latest last."""
        ...

    def output(
        self, pod: Object, container: str, *, since: datetime | None, follow: bool
    ) -> AsyncIterator[bytes]:
        """Lines of a container's output, each after its RFC 3339 time and a space."""
        ...


class KubernetesCluster:
    """A cluster through its API server."""

    def __init__(self, api: AsyncKubeApi) -> None:
        self._api = api
        self.reader: Reader = api

    @property
    def server(self) -> str:
        return self._api.server

    def changed(self) -> bool:
        return self._api.changed()

    async def renew(self) -> None:
        await self._api.renew()

    async def lease(self) -> Object | None:
        try:
            return await self._api.request("GET", LEASE_PATH)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def hold(self, lease: Object) -> Object | None:
        try:
            # Also where there is none: the launcher's rights are for this name, which a POST does not have.
            return await self._api.request("PUT", LEASE_PATH, body=lease)
        except ApiError as error:
            gone = error.status in (404, 409) and "resourceVersion" in lease["metadata"]
            # Without a version, 422 where there is one by now: Leases are never replaced blindly.
            if gone or error.status == 409 or (error.status == 422 and await self.lease()):
                return None
            raise

    def now(self) -> datetime:
        return self._api.now()

    async def create(self, thing: Object) -> Object:
        try:
            return await self._api.request("POST", _collection(thing), body=thing)
        except ApiError as error:
            if error.status == 409 and error.reason == "AlreadyExists":
                return await self._ours(thing)
            denied = _DENIED.search(str(error)) is not None
            if denied or error.status in (400, 403, 404, 413, 422):
                # Quotas, policies and namespaces change; what the server itself finds invalid stays so.
                raise ObjectRefused(
                    cause(str(error)), passing=denied or error.status in (403, 404)
                ) from error
            raise

    async def stop(self, job: Object, verdict: str | None) -> None:
        path = _path(job)
        if verdict is not None:
            metadata = {"uid": job["metadata"]["uid"], "annotations": {VERDICT: verdict}}
            await self._quietly("PATCH", path, {"metadata": metadata}, MERGE)
        about = {"propagationPolicy": "Foreground", "preconditions": {"uid": job["metadata"]["uid"]}}
        await self._quietly("DELETE", path, {"apiVersion": "v1", "kind": "DeleteOptions", **about})

    async def release(self, things: Sequence[Object]) -> None:
        for thing in things:
            if RECORDED_FINALIZER in (thing["metadata"].get("finalizers") or ()):
                # Whatever else of it, and of the list, the controllers change meanwhile.
                without = {"uid": thing["metadata"]["uid"], _LEFT_OUT: [RECORDED_FINALIZER]}
                await self._quietly("PATCH", _path(thing), {"metadata": without}, STRATEGIC)

    async def warnings(self, namespace: str) -> dict[str, list[str]]:
        path = f"/api/v1/namespaces/{namespace}/events"
        # The scheduler's present word is the pod's condition; its events tell what was true before.
        found, _ = await self._api.list_all(path, {"fieldSelector": "type=Warning,source!=default-scheduler"})
        found.sort(
            key=lambda event: str(event.get("lastTimestamp") or event["metadata"]["creationTimestamp"])
        )
        said: dict[str, dict[tuple[str, str], str]] = {}
        for event in found:
            about = said.setdefault(event["involvedObject"].get("uid", ""), {})
            source = event.get("reportingComponent") or (event.get("source") or {}).get("component")
            kind = (str(source), str(event.get("reason")))
            about.pop(kind, None)
            about[kind] = cause(str(event.get("message") or event.get("reason")))
        return {uid: list(texts.values())[-MOST_WARNINGS:] for uid, texts in said.items()}

    async def output(
        self, pod: Object, container: str, *, since: datetime | None, follow: bool
    ) -> AsyncIterator[bytes]:
        query = {"container": container, "timestamps": "true"}
        if since is not None:
            query["sinceTime"] = since.strftime("%Y-%m-%dT%H:%M:%SZ")
        if follow:
            query["follow"] = "true"
        async for line in self._api.log(f"{_path(pod)}/log", query):
            yield line

    async def _ours(self, wanted: Object) -> Object:
        """What has the name already; raises ObjectRefused where it is not of this very attempt."""
        found = await self._api.request("GET", f"{_collection(wanted)}/{wanted['metadata']['name']}")
        ours, theirs = (one["metadata"].get("labels") or {} for one in (wanted, found))
        if any(theirs.get(label) != ours[label] for label in (JOB_LABEL, ATTEMPT_LABEL)):
            where = f"{wanted['metadata']['namespace']}/{wanted['metadata']['name']}"
            raise ObjectRefused(
                f"{wanted['kind']} {where} exists and is not the queue's; delete it", passing=True
            )
        return found

    async def _quietly(self, method: str, path: str, body: Object | None, kind: str = JSON) -> None:
        """What is gone, or another object by now (its uid can't be changed: 422), needs nothing."""
        try:
            await self._api.request(method, path, None, body, kind)
        except ApiError as error:
            another = error.status == 422 and "metadata.uid" in str(error)
            if error.status not in (404, 409) and not another:
                raise


def _kind(thing: Object) -> str:
    """Items of a list do not name their kind."""
    return str(thing.get("kind") or ("Job" if "template" in thing.get("spec", {}) else "Pod"))


def _collection(thing: Object) -> str:
    namespace = thing["metadata"]["namespace"]
    kind = _kind(thing)
    root = "/apis/batch/v1" if kind == "Job" else "/api/v1"
    return f"{root}/namespaces/{namespace}/{kind.lower()}s"


def _path(thing: Object) -> str:
    return f"{_collection(thing)}/{thing['metadata']['name']}"
