"""Nodes that exist already -> pools: those of one GPU model, size, configuration and taints are one pool.

Nodes that Karpenter has started belong to its pools and are skipped. What a node says of its GPUs is for
`gpupool.adopt.convert.node_state`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpupool.adopt.convert import node_labels, node_state
from gpupool.adopt.convert.account import Part
from gpupool.adopt.convert.cluster_objects import ClusterObjects
from gpupool.adopt.convert.device_plugin import NOT_MIXED
from gpupool.adopt.convert.draft import Draft, DraftPool
from gpupool.adopt.convert.leftovers import Kind
from gpupool.adopt.convert.mig_parted import PER_GPU
from gpupool.adopt.convert.node_labels import MIG_LABEL, PLUGIN_LABEL
from gpupool.adopt.convert.node_state import PARTITIONED, PRODUCT, ReportedNode
from gpupool.adopt.convert.sharing import Sharings, problem_of, slices, spelled
from gpupool.adopt.convert.values import as_whole
from gpupool.environment.catalog.models import GpuModel
from gpupool.environment.catalog.project import catalog_here
from gpupool.environment.plan.model import POOL_LABEL, TAINTS_ANNOTATION
from gpupool.environment.plan.platforms import PLATFORMS

_GROUP_LABELS = tuple(row.group_label for row in PLATFORMS.values() if row.group_label)


def make(cluster: ClusterObjects, sharings: Sharings, draft: Draft) -> None:
    """Add a pool to `draft` for each group of equal nodes."""
    groups: dict[tuple[Any, ...], list[_Node]] = {}
    for node in cluster.nodes:
        labels = _labels(node)
        if "karpenter.sh/nodepool" in labels or not _has_gpus(node, labels):
            node.of_cluster()
        elif (gpu := model(labels)) is None:
            _unknown(node, labels, draft)
        else:
            steering = tuple(labels.get(label) for label in (POOL_LABEL, PLUGIN_LABEL, MIG_LABEL))
            read = _read(node, gpu, sharings)
            key = (gpu.key, read.state.gpus, steering, _taint_values(node), repr(read.sharing), read.problem)
            groups.setdefault(key, []).append(read)
    for key, nodes in groups.items():
        pool = _pool(nodes, catalog_here()[key[0]], draft)
        if pool is not None:
            _by_group(pool, [node.part for node in nodes], cluster)
            draft.add(pool)


def _by_group(pool: DraftPool, nodes: Sequence[Part], cluster: ClusterObjects) -> None:
    """Choose the pool's nodes by their node group where they are all of one and nothing else is: groups
    replace their nodes, and names do not stay."""
    names = {node.document.name for node in nodes}
    for label in _GROUP_LABELS:
        groups = {_labels(node).get(label) for node in nodes}
        group = next(iter(groups))
        if len(groups) > 1 or group is None:
            continue
        members = {node.document.name for node in cluster.nodes if _labels(node).get(label) == group}
        if members == names:
            pool.selector, pool.max, pool.names = {label: group}, len(names), []
            why = f"pool {pool.name} is selected by {label}={group}; max is the present number of nodes"
            nodes[0].note("assumed", why, "raise nodes.max to the group's own maximum")
            return


@dataclass(frozen=True, slots=True)
class _Node:
    """A node, and how its GPUs are shared."""

    part: Part
    state: ReportedNode
    sharing: dict[str, Any]
    origin: list[str]
    problem: str
    """Why it can be in no pool."""


def _pool(group: Sequence[_Node], gpu: GpuModel, draft: Draft) -> DraftPool | None:
    nodes = [node.part for node in group]
    first, state, problem = nodes[0], group[0].state, group[0].problem
    labels = _labels(first)
    names = sorted(node.document.name for node in nodes)
    for node in nodes:
        node.of_cluster()
        node.mark_derived_if(node.document.name, "metadata", "name")
    wanted = labels.get(POOL_LABEL) or labels.get(PLUGIN_LABEL) or gpu.key
    pool = DraftPool(node_labels.pool_name(wanted), gpu.key, group[0].sharing, names=names, gpus=state.gpus)
    if problem:
        draft.left_out.append(f"{', '.join(names)}: {problem}")
        kind: Kind = "left" if problem == PER_GPU else "wrong"
        which = f"nodes {', '.join(names)} are" if len(names) > 1 else f"node {names[0]} is"
        first.note(kind, f"{which} left out: {problem}", "")
        return None
    if state.single:
        first.note("left", *NOT_MIXED)
    if state.assumed:
        first.note("assumed", state.assumed, "correct nodes.gpus and the layout if they have fewer")
    taints = first.at("spec", "taints")
    pool.taints = _own_taints(first) if _is_ours(first) else node_labels.taints(taints, pool.name)
    pool.labels = _own_labels(nodes) if _is_ours(first) else {}
    taints.of_cluster()
    if pool.taints == [node_labels.default_taint(pool.name)]:
        pool.taints = None
    pool.origin = [
        f"{len(names)} node{'s' if len(names) != 1 else ''} with {labels.get(PRODUCT, gpu.title)}",
        *group[0].origin,
    ]
    return pool


def _read(node: Part, gpu: GpuModel, sharings: Sharings) -> _Node:
    """How its GPUs are shared: what the node says, and what the configuration that its labels choose does."""
    capacity = node.at("status", "capacity").value
    state = node_state.of(_labels(node), capacity if isinstance(capacity, dict) else {}, gpu)
    steering = {key: part for key in node_labels.STEERING if (part := node.at("metadata", "labels", key))}
    otherwise = "the node's value was written" if state.sharing else ""
    sharing, origin, problem = sharings.of(steering, gpu, [state.gpus], unchosen=otherwise)
    shared = origin and sharing.get("mode") in ("time-slicing", "mps")
    if not problem and state.problem and not (state.sliced and shared):
        problem = f"{state.problem}; correct it, or write its pool manually"
    elif not problem and state.sharing is not None:
        if origin and slices(sharing, gpu, 1) != slices(state.sharing, gpu, 1):
            chosen = f"{origin[0]} {spelled(sharing)}"
            problem = f"it says {spelled(state.sharing)}, but {chosen}; correct one of them"
        sharing, problem = state.sharing, problem or problem_of(state.sharing, gpu)
        origin = origin or ["shared as on the nodes"]
    return _Node(node, state, sharing, origin, problem)


def _labels(node: Part) -> dict[str, str]:
    labels = node.at("metadata", "labels")
    return {key: part.value for key, part in labels.items() if isinstance(part.value, str)}


def _taint_values(node: Part) -> tuple[str, ...]:
    """The taints that are not a temporary state of the node."""
    taints = node.at("spec", "taints")
    rows = [part.value for part in taints.each() if isinstance(part.value, dict)]
    lasting = [row for row in rows if not str(row.get("key")).startswith(node_labels.LIFECYCLE)]
    return tuple(sorted(repr([row.get(field) for field in ("key", "value", "effect")]) for row in lasting))


def _has_gpus(node: Part, labels: Mapping[str, str]) -> bool:
    offered = any(key.startswith("nvidia.com/") for key, _ in node.at("status", "capacity").items())
    return offered or PRODUCT in labels or POOL_LABEL in labels


def model(labels: Mapping[str, str]) -> GpuModel | None:
    """The catalog's model that GPU Feature Discovery has found; None where the catalog has none."""
    product = node_state.product(labels)
    gpus = [gpu for gpu in catalog_here().models.values() if product in gpu.product_labels]
    memory = as_whole(labels.get("nvidia.com/gpu.memory", ""))
    if len(gpus) > 1 and memory is not None and PARTITIONED not in labels[PRODUCT]:
        gpus.sort(key=lambda gpu: abs(gpu.memory_mib - memory))
    return gpus[0] if gpus else None


def _unknown(node: Part, labels: Mapping[str, str], draft: Draft) -> None:
    product = labels.get(PRODUCT)
    why = f"its GPU {product!r} is not in the catalog" if product else f"it has no label {PRODUCT}"
    node.of_cluster()
    node.note("todo", f"{why}; the node is in no pool", "write its pool manually (see gpupool catalog)")
    draft.left_out.append(f"node {node.document.name}: {why}")


def _is_ours(node: Part) -> bool:
    return bool(node.at("metadata", "annotations", TAINTS_ANNOTATION))


def _own_taints(node: Part) -> list[dict[str, str]]:
    """The taints that gpupool has put on the node, according to its annotation there."""
    try:
        taints = json.loads(node.word("metadata", "annotations", TAINTS_ANNOTATION))
    except ValueError:
        return []
    return [taint for taint in taints if isinstance(taint, dict)] if isinstance(taints, list) else []


def _own_labels(nodes: Sequence[Part]) -> dict[str, str]:
    """The labels of the user's that gpupool has put on all of the nodes."""
    first, *others = map(_applied_labels, nodes)
    return {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}


def _applied_labels(node: Part) -> dict[str, str]:
    """The labels of the user's that gpupool has put on the node, by the server's own record."""
    applied: set[str] = set()
    for row in node.at("metadata", "managedFields").each():
        if row.word("manager") == "gpupool" and row.word("operation") == "Apply":
            fields = row.at("fieldsV1", "f:metadata", "f:labels")
            applied |= {key.removeprefix("f:") for key, _ in fields.items()}
    return {
        key: value for key, value in _labels(node).items() if key in applied and not node_labels.owned(key)
    }
