"""Nodes that exist already: our labels and taints beside their own, all of which are given back on removal.

A Node's spec.taints is one value for server-side apply: who sets it owns the whole list. So the patch
carries the node's own taints as well as ours, and notes on the node which are whose. Before the patch
is taken away, a hook gives the node its own list back under another owner; what remains for the patch
to give up are our labels, notes and nothing else. Labels merge key by key and need no such care.

With the plain CLI: `pulumi up` runs the hook; `pulumi destroy` refuses and asks for
`pulumi destroy --run-program`, which runs it. Lifecycle taints (node.kubernetes.io/...) are left out:
their controllers put them back by themselves.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from gpupool.environment.plan.model import TAINTS_ANNOTATION, Plan
from gpupool.findings import GpupoolError
from gpupool.generators.manifest import Manifest
from gpupool.generators.static_nodes import node_patch
from gpupool.live.cluster.conflicts import until_no_conflict
from gpupool.live.cluster.kube_api import MERGE, KubeApi
from gpupool.live.cluster.live_objects import MIG_LABEL, NO_LAYOUT
from gpupool.live.objects.managed_fields import rows_of
from gpupool.live.objects.owner import FIELD_MANAGER

OWN_TAINTS_ANNOTATION = "gpupool.dev/own-taints"
"""Annotation on the node: the taints that it had without us, as JSON."""

RESTORER = "gpupool-restore"
"""Field manager under which a node gets its own taints back."""

HOOK = "give-node-taints-back"

_OPERATORS_DEFAULT = (MIG_LABEL, NO_LAYOUT)
"""The GPU Operator sets this label on nodes that can be partitioned and don't say how (v26.7.0)."""

_LIFECYCLE = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
Taint = Mapping[str, Any]


class NodeError(GpupoolError):
    """Nodes that can't be part of a pool as things are; each problem names the node and what to do."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


def resolve(plan: Plan, manifests: Iterable[Manifest], api: KubeApi) -> tuple[Manifest, ...]:
    """`manifests` with every node patch made fit for the live node, and the nodes of selector pools added.

    Raises NodeError with everything that is wrong: missing nodes, labels or taints that others have set
    to something else, a node in two pools, a selector that chooses nothing.
    """
    given = list(manifests)
    patches = [manifest for manifest in given if manifest.patch and manifest.kind == "Node"]
    rest = [manifest for manifest in given if manifest not in patches]
    problems: list[str] = []
    for pool in plan.pools:
        if pool.node_selector:
            selector = ",".join(f"{key}={value}" for key, value in pool.node_selector.items())
            nodes = api.list("v1", "Node", selector=selector)
            if not nodes:
                problems.append(f"pool {pool.name}: no node has the labels {selector}; label one or name it")
            patches += [node_patch(pool, node["metadata"]["name"]) for node in nodes]
    problems += _claimed_twice(patches)
    fitted = []
    for patch in patches:
        node = api.get("v1", "Node", patch.name)
        if node is None:
            problems.append(f"node {patch.name} is not in the cluster; join it or remove it from its pool")
            continue
        problems += conflicts(node, patch.body)
        fitted.append(Manifest(fit(node, patch.body), patch=True))
    if problems:
        raise NodeError(problems)
    return (*rest, *fitted)


def fit(node: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """The patch `body` with the node's own taints in front of ours, and annotations that distinguish them."""
    own, ours = own_taints(node), list(body.get("spec", {}).get("taints", ()))
    taken = {_identity(taint) for taint in own}
    notes = {TAINTS_ANNOTATION: _note(ours), OWN_TAINTS_ANNOTATION: _note(own)}
    metadata = {**body["metadata"], "annotations": {**body["metadata"].get("annotations", {}), **notes}}
    merged = own + [taint for taint in ours if _identity(taint) not in taken]
    return {**body, "metadata": metadata, "spec": {"taints": merged}}


def own_taints(node: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The taints that the node has, or would have, without us; lifecycle taints left out."""
    annotations = node["metadata"].get("annotations") or {}
    ours = {_identity(taint) for taint in json.loads(annotations.get(TAINTS_ANNOTATION, "[]"))}
    # A taint that was on the node before we asked for the same one stays the node's own.
    shared = {_identity(taint) for taint in json.loads(annotations.get(OWN_TAINTS_ANNOTATION, "[]"))} & ours
    live = node.get("spec", {}).get("taints") or []
    foreign = ours - shared
    return [t for t in live if _identity(t) not in foreign and not t["key"].startswith(_LIFECYCLE)]


def conflicts(node: Mapping[str, Any], body: Mapping[str, Any]) -> list[str]:
    """What others have set on the node to another value than the pool wants."""
    name, live = node["metadata"]["name"], node["metadata"].get("labels") or {}
    mine = _labels_applied(node)
    problems = [
        f'node {name}: label {key} is "{live[key]}", set by others, but the pool needs "{value}"; '
        f"remove it (kubectl label node {name} {key}-) or choose another label"
        for key, value in body["metadata"].get("labels", {}).items()
        if key in live and live[key] != value and key not in mine and (key, live[key]) != _OPERATORS_DEFAULT
    ]
    own = {_identity(taint): taint.get("value", "") for taint in own_taints(node)}
    for taint in body.get("spec", {}).get("taints", ()):
        have = own.get(_identity(taint))
        if have is not None and have != taint.get("value", ""):
            problems.append(
                f'node {name}: it has a taint {taint["key"]}="{have}":{taint["effect"]} already, but the '
                f'pool needs the value "{taint.get("value", "")}"; remove it or choose another taint'
            )
    return problems


def restore(api: KubeApi, name: str) -> None:
    """Set the node's taints to its own ones, with lifecycle taints as they are. A missing node is fine."""

    def give_back() -> None:
        node = api.get("v1", "Node", name)
        if node is not None and TAINTS_ANNOTATION in (node["metadata"].get("annotations") or {}):
            _give_back(api, node)

    until_no_conflict(give_back)


def _give_back(api: KubeApi, node: Mapping[str, Any]) -> None:
    lifecycle = [t for t in node["spec"].get("taints") or () if t["key"].startswith(_LIFECYCLE)]
    body = {
        # Fails rather than overwrite what a controller has changed since the read.
        "metadata": {"resourceVersion": node["metadata"]["resourceVersion"]},
        "spec": {"taints": (own_taints(node) + lifecycle) or None},
    }
    path = api.require("v1", "Node").path(None, node["metadata"]["name"])
    api.request("PATCH", path, {"fieldManager": RESTORER}, body, MERGE)


def _labels_applied(node: Mapping[str, Any]) -> set[str]:
    """Keys of the labels that an earlier run of ours has set."""
    keys: set[str] = set()
    for row in rows_of(node):
        if row.get("manager") == FIELD_MANAGER and row.get("operation") == "Apply":
            labels = row.get("fieldsV1", {}).get("f:metadata", {}).get("f:labels", {})
            keys |= {key.removeprefix("f:") for key in labels}
    return keys


def _claimed_twice(patches: Iterable[Manifest]) -> list[str]:
    pools: dict[str, list[str]] = {}
    for patch in patches:
        pools.setdefault(patch.name, []).append(patch.labels.get("gpupool.dev/pool", "?"))
    return [
        f"node {node} is claimed by the pools {' and '.join(names)}; a node can be in only one pool"
        for node, names in pools.items()
        if len(names) > 1
    ]


def _identity(taint: Taint) -> tuple[str, str]:
    """Kubernetes identifies a node's taints by key and effect."""
    return str(taint["key"]), str(taint["effect"])


def _note(taints: Iterable[Taint]) -> str:
    return json.dumps(list(taints), sort_keys=True, separators=(",", ":"))
