"""What the launcher asks of a cluster, as a port, and the real one.

Each call may be repeated: creating what exists, deleting what is gone and releasing what is released change
nothing. It must not decide anything.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any, Protocol

from gpupool.cluster.async_api import JSON_PATCH, MERGE, AsyncKubeApi
from gpupool.cluster.kube_api import ApiError
from gpupool.findings import GpupoolError
from gpupool.plan.pods import ATTEMPT_LABEL, JOB_LABEL, RECORDED_FINALIZER
from gpupool.queue.kubernetes.mirror import Reader
from gpupool.queue.kubernetes.observe import VERDICT

Object = dict[str, Any]


class Refused(GpupoolError):
    """The cluster does not take the object: a policy, a quota, a field. `passing`: it may later."""

    def __init__(self, message: str, *, passing: bool) -> None:
        super().__init__(message)
        self.passing = passing


class Cluster(Protocol):
    """Errors of all calls: GpupoolError where the cluster does not answer or refuses."""

    reader: Reader

    async def create(self, objects: Sequence[Object]) -> Object:
        """Create what is missing of these; the last, a Job, as it is then. Raises Refused, also where another
        Job has its name."""
        ...

    async def stop(self, job: Object, verdict: str | None) -> None:
        """Ask for the end of this very Job and its pods, each with its grace. `verdict`: kept on the Job."""
        ...

    async def release(self, things: Sequence[Object]) -> None:
        """Take our finalizer off this Job or these pods: they may go. The Service of a Job of several nodes
        goes before it."""
        ...

    async def events(self, thing: Object) -> list[str]:
        """Warnings about an object, the latest last."""
        ...

    def output(
        self, pod: Object, container: str, *, since: datetime | None, follow: bool, limit_bytes: int
    ) -> AsyncIterator[bytes]:
        """Lines of a container's output, each after its RFC 3339 time and a space."""
        ...


class KubernetesCluster:
    """A cluster through its API server."""

    def __init__(self, api: AsyncKubeApi) -> None:
        self._api = api
        self.reader: Reader = api

    async def create(self, objects: Sequence[Object]) -> Object:
        created: Object = {}
        for thing in objects:
            try:
                created = await self._api.request("POST", _collection(thing), body=thing)
            except ApiError as error:
                if error.status == 409 and error.reason == "AlreadyExists":
                    created = await self._ours(thing)
                elif error.status in (400, 403, 404, 413, 422):
                    # Quotas, policies and namespaces change; what the server finds invalid stays so.
                    raise Refused(str(error), passing=error.status in (403, 404)) from error
                else:
                    raise
        return created

    async def stop(self, job: Object, verdict: str | None) -> None:
        path = _path(job)
        if verdict is not None:
            metadata = {"uid": job["metadata"]["uid"], "annotations": {VERDICT: verdict}}
            await self._quietly("PATCH", path, {"metadata": metadata})
        about = {"propagationPolicy": "Foreground", "preconditions": {"uid": job["metadata"]["uid"]}}
        await self._quietly("DELETE", path, {"apiVersion": "v1", "kind": "DeleteOptions", **about})

    async def release(self, things: Sequence[Object]) -> None:
        for thing in things:
            if thing.get("spec", {}).get("completionMode") == "Indexed":
                service = {"kind": "Service", "metadata": thing["metadata"]}
                await self._quietly("DELETE", _path(service), None)
            while RECORDED_FINALIZER in (thing["metadata"].get("finalizers") or ()):
                try:
                    await self._api.request("PATCH", _path(thing), None, _without_ours(thing), JSON_PATCH)
                    break
                except ApiError as error:
                    if error.status == 404:
                        break
                    if error.status not in (409, 422):  # 422: it is not as it was seen
                        raise
                try:
                    fresh = await self._api.request("GET", _path(thing))
                except ApiError as error:
                    if error.status == 404:
                        break
                    raise
                if fresh["metadata"]["uid"] != thing["metadata"]["uid"]:
                    break
                thing = {**fresh, "kind": thing.get("kind", _kind(thing))}

    async def events(self, thing: Object) -> list[str]:
        namespace, uid = thing["metadata"]["namespace"], thing["metadata"]["uid"]
        query = {"fieldSelector": f"involvedObject.uid={uid},type=Warning", "limit": "50"}
        answer = await self._api.request("GET", f"/api/v1/namespaces/{namespace}/events", query)
        found = answer.get("items") or []
        found.sort(
            key=lambda event: str(event.get("lastTimestamp") or event["metadata"]["creationTimestamp"])
        )
        return [" ".join(str(event.get("message") or event.get("reason")).split()) for event in found]

    async def output(
        self, pod: Object, container: str, *, since: datetime | None, follow: bool, limit_bytes: int
    ) -> AsyncIterator[bytes]:
        query = {"container": container, "timestamps": "true", "limitBytes": str(limit_bytes)}
        if since is not None:
            query["sinceTime"] = since.strftime("%Y-%m-%dT%H:%M:%SZ")
        if follow:
            query["follow"] = "true"
        async for line in self._api.log(f"{_path(pod)}/log", query):
            yield line

    async def _ours(self, wanted: Object) -> Object:
        """What has the name already; raises Refused where it is not of this very attempt."""
        found = await self._api.request("GET", f"{_collection(wanted)}/{wanted['metadata']['name']}")
        ours, theirs = (one["metadata"].get("labels") or {} for one in (wanted, found))
        if any(theirs.get(label) != ours[label] for label in (JOB_LABEL, ATTEMPT_LABEL)):
            where = f"{wanted['metadata']['namespace']}/{wanted['metadata']['name']}"
            raise Refused(f"{wanted['kind']} {where} exists and is not the queue's; delete it", passing=True)
        return found

    async def _quietly(self, method: str, path: str, body: Object | None) -> None:
        """What is gone, or another object by now (a uid can't be changed: 422), needs nothing."""
        try:
            kind = MERGE if method == "PATCH" else "application/json"
            await self._api.request(method, path, None, body, kind)
        except ApiError as error:
            if error.status not in (404, 409, 422):
                raise


def _without_ours(thing: Object) -> list[Object]:
    """Takes one name off the list, wherever the controllers have got to with the rest of the object. Refused
    where another object has the name now, or somebody else's finalizer came or went."""
    place = f"/metadata/finalizers/{thing['metadata']['finalizers'].index(RECORDED_FINALIZER)}"
    return [
        {"op": "test", "path": "/metadata/uid", "value": thing["metadata"]["uid"]},
        {"op": "test", "path": place, "value": RECORDED_FINALIZER},
        {"op": "remove", "path": place},
    ]


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
