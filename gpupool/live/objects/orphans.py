"""Objects that this environment has made and that neither its file nor the stack's state names any more.

They are left where a state was lost and a pool removed. Ours is what has our labels and was applied under our
field manager or the provider's. What a controller has made from an object of ours, what Argo CD or Flux
applies, and existing nodes are never taken for one. Which deletions need whose consent is decided in `stack`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from gpupool.environment.plan.delivery import ENGINE_FACTS
from gpupool.findings import GpupoolError
from gpupool.generators.kinds import KINDS, Kind, rank_of
from gpupool.generators.manifest import Bundle, Manifest
from gpupool.generators.metadata import TENANT_LABEL
from gpupool.live.cluster.kube_api import METADATA, ApiError, KubeApi
from gpupool.live.objects import owner, repartition_mark
from gpupool.live.objects.managed_fields import managers
from gpupool.live.objects.resource_values import logical_name

Key = tuple[str, str, str | None, str]
"""Group, kind, namespace and name: what names an object, whatever version it was asked for in."""

_AT_ONCE = 16
_GONE_SECONDS = 600.0
"""How long a deletion may take: a NodePool's nodes go first, and drain (as the engine waits by default)."""
_DELIVERERS = frozenset(
    manager for engine in ENGINE_FACTS.values() if engine.name != "pulumi" for manager in engine.managers
)
LISTED = tuple(kind for kind in KINDS if kind.owned)
"""Others carry our labels without being made by us."""
_LAST = rank_of("ConfigMap")
"""Up to this kind an object may be needed by one that is in the state: a policy's parameters, a namespace."""


class ForeignError(GpupoolError):
    """Objects that this environment did not make have names that the file asks for."""


@dataclass(frozen=True)
class OwnObjects:
    """What the cluster holds of an environment."""

    manifests: tuple[Manifest, ...] = ()
    """Metadata, kind and apiVersion, no spec; in the order of their kinds."""
    hidden: tuple[str, ...] = ()
    """Kinds that we may not list."""

    @property
    def keys(self) -> frozenset[Key]:
        """What names them."""
        return frozenset(key_of(manifest.body) for manifest in self.manifests)

    def beside(self, bundle: Bundle, deployment: Mapping[str, Any]) -> tuple[Manifest, ...]:
        """Those that neither the file nor the state names, except the ConfigMap of a repartition."""
        wanted = {key_of(manifest.body) for manifest in bundle}
        left = (one for one in self.unrecorded(deployment) if key_of(one.body) not in wanted)
        return tuple(manifest for manifest in left if not repartition_mark.is_map(manifest))

    def gone(self, deployment: Mapping[str, Any]) -> frozenset[Key]:
        """What the state names of the kinds that were listed, and the cluster does not hold."""
        kinds = {(kind.group, kind.name) for kind in LISTED if kind.name not in self.hidden}
        rows = [row for row in deployment.get("resources") or () if not str(row["type"]).endswith("Patch")]
        return frozenset(key for key in in_state({"resources": rows}) - self.keys if key[:2] in kinds)

    def unrecorded(self, deployment: Mapping[str, Any]) -> tuple[Manifest, ...]:
        """Those that the state does not name."""
        known = in_state(deployment)
        return tuple(manifest for manifest in self.manifests if key_of(manifest.body) not in known)


def key_of(body: Mapping[str, Any]) -> Key:
    """What identifies an object."""
    group = str(body["apiVersion"]).rpartition("/")[0]
    metadata = body["metadata"]
    return group, str(body["kind"]), metadata.get("namespace"), str(metadata["name"])


def in_state(deployment: Mapping[str, Any]) -> frozenset[Key]:
    """Every object that the stack's state names."""
    bodies = (row.get("inputs") or {} for row in deployment.get("resources") or ())
    return frozenset(
        key_of(body)
        for body in bodies
        if "apiVersion" in body and "kind" in body and "name" in (body.get("metadata") or {})
    )


def find(api: KubeApi, environment: str) -> OwnObjects:
    """What the cluster holds of the environment: one list of metadata for each kind, several at once.

    Raises UnreachableError, and ApiError but for kinds that we may not list.
    """
    api.request("GET", "/version")  # so that a silent server is waited for once, and not for each kind
    selector = owner.selector(environment)
    with ThreadPoolExecutor(_AT_ONCE, "orphans") as pool:
        answers = list(pool.map(lambda kind: _list(api, kind, selector), LISTED))
    hidden = tuple(kind.name for kind, found in zip(LISTED, answers, strict=True) if found is None)
    ours = [Manifest(body) for answer in answers for body in answer or () if _is_ours(body)]
    return OwnObjects(tuple(sorted(ours, key=lambda manifest: manifest.key)), hidden)


def _list(api: KubeApi, kind: Kind, selector: str) -> list[dict[str, Any]] | None:
    where = api.resource(kind.api_version, kind.name)
    if where is None:
        return []
    try:
        answer = api.request("GET", where.collection(None), {"labelSelector": selector}, accept=METADATA)[1]
    except ApiError as error:
        if error.status == 403:
            return None
        raise
    return [{**item, "apiVersion": kind.api_version, "kind": kind.name} for item in answer["items"] or ()]


def _is_ours(body: Mapping[str, Any]) -> bool:
    """Whether we have applied it, no other tool delivers it, and it is not being deleted already."""
    metadata = body["metadata"]
    if metadata.get("ownerReferences") or metadata.get("deletionTimestamp"):
        return False
    return owner.made_by_up(body) and not managers(body) & _DELIVERERS


def require_none_foreign(api: KubeApi, environment: str, wanted: Iterable[Manifest]) -> None:
    """Raise ForeignError where one of `wanted` exists in the cluster and is not of this environment.

    Called before each run of the engine, with what the state does not name: the provider takes over what
    exists and does not check whose it is. What is made between the two is taken over as well.
    """
    rows = [manifest for manifest in wanted if not (manifest.patch or repartition_mark.is_map(manifest))]
    if not rows:
        return
    where = api.require("v1", "Namespace").collection(None)
    spaces = {row["metadata"]["name"] for row in api.request("GET", where, accept=METADATA)[1]["items"]}
    possible = [m for m in rows if m.namespace is None or m.namespace in spaces]

    def foreign(manifest: Manifest) -> bool:
        live = api.get(manifest.api_version, manifest.kind, manifest.name, manifest.namespace)
        if live is None or live["metadata"].get("deletionTimestamp"):
            return False
        return not owner.belongs_to(live, environment) or bool(managers(live) & _DELIVERERS)

    with ThreadPoolExecutor(_AT_ONCE, "foreign") as pool:
        manifests = [m for m, theirs in zip(possible, pool.map(foreign, possible), strict=True) if theirs]
    if manifests:
        raise ForeignError(
            f"{', '.join(map(str, manifests))} already exists and was not created by this environment; "
            "delete or rename it, or take it over with `pulumi import`. Nothing was changed"
        )


def protected(found: Iterable[Manifest]) -> frozenset[str]:
    """Names, as `--allow-delete` takes them, of those whose deletion loses other people's work."""
    spaces = (manifest for manifest in found if manifest.kind == "Namespace")
    return frozenset(logical_name(space) for space in spaces if TENANT_LABEL in space.labels)


def summary(found: Iterable[Manifest]) -> str | None:
    """Their number and names, as a message; None if `found` is empty."""
    names = [str(manifest) for manifest in found]
    if not names:
        return None
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    objects = "object of this environment is" if len(names) == 1 else "objects of this environment are"
    return f"{len(names)} {objects} in the cluster but neither in its file nor in the stack's state: {shown}"


def before_the_engine(found: Iterable[Manifest]) -> tuple[Manifest, ...]:
    """Of everything that `destroy` removes, what must go while Karpenter and the operator still run."""
    return tuple(manifest for manifest in found if rank_of(manifest.kind) > _LAST)


def remove(
    api: KubeApi, found: Iterable[Manifest], report: Callable[[str], None]
) -> Iterator[tuple[Manifest, str | None]]:
    """Delete each, kind by kind against the order in which they are made, and wait until it is gone.

    Yields each with the error, None if it was deleted. An object that has been recreated since is left alone:
    its uid differs.
    """
    rows = sorted(found, key=lambda manifest: manifest.key, reverse=True)
    spaces = {manifest.name for manifest in rows if manifest.kind == "Namespace"}
    inside = [manifest for manifest in rows if manifest.namespace in spaces]
    rest = [manifest for manifest in rows if manifest.namespace not in spaces]
    with ThreadPoolExecutor(_AT_ONCE, "orphans") as pool:
        for _, group in groupby(rest, key=lambda manifest: manifest.kind):
            same = list(group)
            for manifest in same:
                report(f"delete {manifest}")
            yield from zip(same, pool.map(lambda manifest: _delete(api, manifest), same), strict=True)
    yield from ((manifest, None) for manifest in inside)


def _delete(api: KubeApi, manifest: Manifest) -> str | None:
    """Why the object was not deleted; None if it was."""
    uid = manifest.body["metadata"]["uid"]
    options = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Foreground",
        "preconditions": {"uid": uid},
    }
    path = api.require(manifest.api_version, manifest.kind).path(manifest.namespace, manifest.name)
    until, pause = time.monotonic() + _GONE_SECONDS, 0.02
    try:
        api.request("DELETE", path, body=options)
        while (live := api.get(manifest.api_version, manifest.kind, manifest.name, manifest.namespace)) and (
            live["metadata"]["uid"] == uid
        ):
            if time.monotonic() > until:
                held = ", ".join(live["metadata"].get("finalizers") or ()) or "nothing that it names"
                return (
                    f"{manifest} is still being deleted after {_GONE_SECONDS:.0f} s, held by {held}; find "
                    "the cause with `kubectl describe`, then run the command again"
                )
            time.sleep(pause)
            pause = min(pause * 1.5, 1.0)
    except ApiError as error:
        # 404: it is gone already. 409: another object has its name now.
        return None if error.status in (404, 409) else f"{manifest}: {error}"
    except GpupoolError as error:
        return f"{manifest}: {error}"
    return None
