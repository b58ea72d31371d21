"""What a cluster holds of the kinds that matter, taken by one list per kind, all of them at once.

Read once and used by assert, repartition, rollback and import, so that they don't query the server again. The
number of requests depends on the kinds asked for and never on how many objects there are (up to PAGE of a
kind come in one answer). Objects are plain dictionaries as the server wrote them; nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from gpupool.environment.plan.model import POOL_LABEL
from gpupool.generators.delivery import delivering
from gpupool.generators.kinds import KINDS, kind_of
from gpupool.generators.manifest import Bundle
from gpupool.live.cluster.gpu_publishers import RESOURCE_SLICES
from gpupool.live.cluster.kube_api import ApiError, KubeApi

Object = dict[str, Any]
Kind = tuple[str, str]
"""(apiVersion, kind)."""

PAGE = 5000
"""Objects of one answer. More than any figure here needs, and small enough for a server to put together
(Kubernetes documentation, API concepts, retrieving large results sets in chunks)."""
_AT_ONCE = 16
NODEPOOL_LABEL = "karpenter.sh/nodepool"


@dataclass(frozen=True, slots=True)
class Query:
    """One list request."""

    api_version: str
    kind: str
    namespace: str | None = None
    """None: of all namespaces."""
    fields: str = ""
    """A field selector."""
    optional: bool = False
    """Whether it is left out, as an unknown kind is, where we may not list it."""

    @property
    def of(self) -> Kind:
        return self.api_version, self.kind


ALL_PODS = Query("v1", "Pod")
PENDING_PODS = Query("v1", "Pod", fields="status.phase=Pending")
"""Those that wait, for a node or for their images: few, where all pods may be many megabytes."""
NODES = Query("v1", "Node")
NODE_CLAIMS = Query("karpenter.sh/v1", "NodeClaim")


def of_operator(namespace: str) -> tuple[Query, ...]:
    """What the GPU Operator runs, in its namespace."""
    return Query("v1", "Pod", namespace), Query("apps/v1", "DaemonSet", namespace)


def queries(bundle: Bundle) -> tuple[Query, ...]:
    """The lists that are needed to compare a cluster with `bundle`.

    Every kind in it, those that an earlier one may have had, nodes, node claims, what the operator runs, pods
    that wait, and what DRA drivers publish.
    """
    found: dict[Query, None] = {}
    for kind in KINDS:
        spaces = kind.namespaces(bundle.operator_namespace)
        found |= dict.fromkeys(Query(kind.api_version, kind.name, namespace) for namespace in spaces)
    for release in bundle.releases:
        found[Query("apps/v1", "Deployment", release.namespace, f"metadata.name={release.name}")] = None
    for body in delivering(bundle):
        query = Query(body["apiVersion"], body["kind"], body["metadata"]["namespace"], optional=True)
        found[query] = None
    for manifest in bundle:
        known = kind_of(manifest.kind)
        if known.owned and None not in known.listed:
            found[Query(manifest.api_version, manifest.kind, manifest.namespace)] = None
    slices = (Query(*kind, optional=True) for kind in RESOURCE_SLICES)
    return (*found, *slices, NODES, NODE_CLAIMS, *of_operator(bundle.operator_namespace), PENDING_PODS)


@dataclass(frozen=True)
class ClusterSnapshot:
    """What was there at `taken`."""

    objects: Mapping[Kind, Mapping[tuple[str | None, str], Object]]
    """By (apiVersion, kind), then by (namespace, name)."""
    taken: datetime
    unknown: frozenset[Kind] = frozenset()
    """Kinds that the server does not have: their CRD is missing."""
    requests: int = 0
    """List requests that it took."""

    @property
    def known(self) -> frozenset[Kind]:
        """Kinds that were asked for, that the server has, and that we may list."""
        return frozenset(self.objects.keys() - self.unknown)

    def of(self, api_version: str, kind: str) -> Iterator[Object]:
        """All objects of a kind, by namespace and name."""
        yield from self.objects.get((api_version, kind), {}).values()

    def find(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """The object, None where it was not there."""
        return self.objects.get((api_version, kind), {}).get((namespace, name))

    @cached_property
    def nodes(self) -> Mapping[str, Object]:
        """Nodes by name."""
        return {node["metadata"]["name"]: node for node in self.of("v1", "Node")}

    @cached_property
    def _by_pool(self) -> Mapping[str, tuple[Object, ...]]:
        found: dict[str, list[Object]] = {}
        for node in self.nodes.values():
            found.setdefault(labels(node).get(POOL_LABEL, ""), []).append(node)
        return {pool: tuple(nodes) for pool, nodes in found.items()}

    def nodes_of(self, pool: str) -> tuple[Object, ...]:
        """Nodes that carry the label of the pool, by name."""
        return self._by_pool.get(pool, ())

    @cached_property
    def _by_node(self) -> Mapping[str, tuple[Object, ...]]:
        found: dict[str, list[Object]] = {}
        for pod in self.of("v1", "Pod"):
            found.setdefault(pod["spec"].get("nodeName") or "", []).append(pod)
        return {node: tuple(pods) for node, pods in found.items()}

    def pods_on(self, node: str) -> tuple[Object, ...]:
        """The pods of a node among those that were asked for (ALL_PODS for all of them)."""
        return self._by_node.get(node, ())

    @cached_property
    def claims(self) -> Mapping[str, Object]:
        """Karpenter's node claims by the name of their node; those without a node are not here."""
        rows = ((claim.get("status") or {}, claim) for claim in self.of(*NODE_CLAIMS.of))
        return {status["nodeName"]: claim for status, claim in rows if status.get("nodeName")}


def take(api: KubeApi, wanted: Iterable[Query], now: datetime | None = None) -> ClusterSnapshot:
    """Ask the server for everything in `wanted`.

    Raises ApiError (with the kind in its text where we may not read it) and UnreachableError. A kind that
    the server does not know is noted, not an error.
    """
    rows = tuple(dict.fromkeys(wanted))
    taken = now or datetime.now(UTC)
    with ThreadPoolExecutor(_AT_ONCE, "snapshot") as pool:
        answers = list(pool.map(lambda query: _list(api, query), rows))
    objects: dict[Kind, dict[tuple[str | None, str], Object]] = {}
    unknown = set()
    for query, (found, _) in zip(rows, answers, strict=True):
        held = objects.setdefault(query.of, {})
        if found is None:
            unknown.add(query.of)
            continue
        for item in found:
            held[item["metadata"].get("namespace"), item["metadata"]["name"]] = item
    ordered = {kind: dict(sorted(held.items(), key=_place)) for kind, held in objects.items()}
    return ClusterSnapshot(ordered, taken, frozenset(unknown), sum(count for _, count in answers))


def _list(api: KubeApi, query: Query) -> tuple[list[Object] | None, int]:
    """The objects (None where the kind is not known) and the requests that it took."""
    where = api.resource(query.api_version, query.kind)
    if where is None:
        return None, 0
    asked = {"limit": str(PAGE)} | ({"fieldSelector": query.fields} if query.fields else {})
    items: list[Object] = []
    count = 0
    while True:
        try:
            answer = api.request("GET", where.collection(query.namespace), asked)[1]
        except ApiError as error:
            if error.status == 404:  # discovery has the kind, which comes or goes just now
                return None, count + 1
            if error.status == 403 and query.optional:
                return None, count + 1
            if error.status == 403:
                text = f"not allowed to list {query.kind} objects: {error}"
                raise ApiError(error.status, error.reason, text) from error
            raise
        count += 1
        items += ({"apiVersion": query.api_version, "kind": query.kind, **row} for row in answer["items"])
        following = answer["metadata"].get("continue")
        if not following:
            return items, count
        asked = {**asked, "continue": following}


def labels(thing: Object) -> Mapping[str, str]:
    """The labels of an object."""
    found: Mapping[str, str] = thing["metadata"].get("labels") or {}
    return found


def notes(thing: Object) -> Mapping[str, str]:
    """The annotations of an object."""
    found: Mapping[str, str] = thing["metadata"].get("annotations") or {}
    return found


def _place(row: tuple[tuple[str | None, str], Object]) -> tuple[str, str]:
    (namespace, name), _ = row
    return namespace or "", name
