"""Nodes that exist already -> pools: those of one GPU model, size, configuration and taints are one pool.

Nodes that Karpenter has started belong to its pools and are skipped. GPU Feature Discovery's labels by
k8s-device-plugin v0.20.0: `nvidia.com/gpu.product` is the model, `nvidia.com/gpu.count` the number of GPUs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from gpupool.catalog.models import GpuModel
from gpupool.catalog.project import catalog_here
from gpupool.convert import node_labels
from gpupool.convert.account import Part
from gpupool.convert.cluster_objects import ClusterObjects
from gpupool.convert.draft import Draft, DraftPool
from gpupool.convert.leftovers import Kind
from gpupool.convert.mig_parted import PER_GPU
from gpupool.convert.node_labels import MIG_LABEL, PLUGIN_LABEL
from gpupool.convert.sharing import Sharings
from gpupool.convert.values import as_whole
from gpupool.plan.model import POOL_LABEL

_PRODUCT, _COUNT = "nvidia.com/gpu.product", "nvidia.com/gpu.count"
_NOTE = "gpupool.dev/taints"
"""Annotation with the taints that gpupool has put on a node (`infra.static_nodes`)."""


def make(cluster: ClusterObjects, sharings: Sharings, draft: Draft) -> None:
    """Add a pool to `draft` for each group of equal nodes."""
    groups: dict[tuple[Any, ...], list[Part]] = {}
    for node in cluster.nodes:
        labels = _labels(node)
        if "karpenter.sh/nodepool" in labels or not _has_gpus(node, labels):
            node.of_cluster()
        elif (gpu := model(labels)) is None:
            _unknown(node, labels, draft)
        else:
            steering = tuple(labels.get(label) for label in (POOL_LABEL, PLUGIN_LABEL, MIG_LABEL))
            key = (gpu.key, _gpus(labels), steering, _taint_values(node))
            groups.setdefault(key, []).append(node)
    for key, nodes in groups.items():
        pool = _pool(nodes, catalog_here()[key[0]], sharings, draft)
        if pool is not None:
            draft.add(pool)


def _pool(nodes: Sequence[Part], gpu: GpuModel, sharings: Sharings, draft: Draft) -> DraftPool | None:
    first = nodes[0]
    labels = _labels(first)
    steering = {key: part for key in node_labels.STEERING if (part := first.at("metadata", "labels", key))}
    gpus = _gpus(labels)
    sharing, origin, problem = sharings.of(steering, gpu, [gpus])
    names = sorted(node.document.name for node in nodes)
    for node in nodes:
        node.of_cluster()
        node.says(node.document.name, "metadata", "name")
    wanted = labels.get(POOL_LABEL) or labels.get(PLUGIN_LABEL) or gpu.key
    pool = DraftPool(node_labels.pool_name(wanted), gpu.key, sharing, names=names, gpus=gpus)
    if problem:
        draft.left_out.append(f"{', '.join(names)}: {problem}")
        kind: Kind = "left" if problem == PER_GPU else "wrong"
        first.note(kind, f"nodes {', '.join(names)} are left out: {problem}", "")
        return None
    taints = first.at("spec", "taints")
    pool.taints = _own_taints(first) if _is_ours(first) else node_labels.taints(taints, pool.name)
    pool.labels = _own_labels(nodes) if _is_ours(first) else {}
    taints.of_cluster()
    if pool.taints == [node_labels.default_taint(pool.name)]:
        pool.taints = None
    pool.origin = [
        f"{len(names)} node{'s' if len(names) != 1 else ''} with {labels.get(_PRODUCT, gpu.title)}",
        *origin,
    ]
    return pool


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
    return offered or _PRODUCT in labels or POOL_LABEL in labels


def model(labels: Mapping[str, str]) -> GpuModel | None:
    """The catalog's model that GPU Feature Discovery has found; None where the catalog has none."""
    product = labels.get(_PRODUCT, "").partition("-MIG-")[0].removesuffix("-SHARED")
    found = [gpu for gpu in catalog_here().models.values() if product in gpu.product_labels]
    memory = as_whole(labels.get("nvidia.com/gpu.memory", ""))
    if len(found) > 1 and memory is not None:
        found.sort(key=lambda gpu: abs(gpu.memory_mib - memory))
    return found[0] if found else None


def _gpus(labels: Mapping[str, str]) -> int:
    """GPUs of a node; under the single strategy the label counts MIG instances, which is not handled
    separately."""
    return as_whole(labels.get(_COUNT, "")) or 1


def _unknown(node: Part, labels: Mapping[str, str], draft: Draft) -> None:
    product = labels.get(_PRODUCT)
    why = f"its GPU {product!r} is not in the catalog" if product else f"it has no label {_PRODUCT}"
    node.of_cluster()
    node.note(
        "todo", f"{why}; the node is in no pool", "write its pool by hand (gpupool catalog lists the GPUs)"
    )
    draft.left_out.append(f"node {node.document.name}: {why}")


def _is_ours(node: Part) -> bool:
    return bool(node.at("metadata", "annotations", _NOTE))


def _own_taints(node: Part) -> list[dict[str, str]]:
    """The taints that gpupool has put on the node, according to its annotation there."""
    try:
        taints = json.loads(node.word("metadata", "annotations", _NOTE))
    except ValueError:
        return []
    return [taint for taint in taints if isinstance(taint, dict)] if isinstance(taints, list) else []


def _own_labels(nodes: Sequence[Part]) -> dict[str, str]:
    """The labels of the user's that gpupool has put on all of the nodes."""
    first, *others = map(_applied_labels, nodes)
    return {key: value for key, value in first.items() if all(one.get(key) == value for one in others)}


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
