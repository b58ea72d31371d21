"""Nodes of an environment's pools, made by hand as Karpenter or a person makes them, and its objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpupool.environment.plan.model import Plan
from gpupool.generators import generate
from gpupool.generators.manifest import Manifest

Object = dict[str, Any]
_NOT_HERE = {"karpenter.sh", "karpenter.k8s.aws", "karpenter.kwok.sh", "monitoring.coreos.com", "nvidia.com"}
"""API groups whose objects are left out: nodes are made by hand, and the chart writes the ClusterPolicy."""
POOL = "gpupool.dev/pool"


def objects(plan: Plan) -> list[Manifest]:
    """What `up` applies beside nodes and charts: ConfigMaps, policies, namespaces."""
    return [one for one in generate(plan) if not one.patch and one.group not in _NOT_HERE]


def nodes(plan: Plan) -> Iterator[Object]:
    """One node of each kind of node of each pool, with its labels and taints."""
    for manifest in generate(plan):
        if manifest.kind == "NodePool":
            template = manifest.body["spec"]["template"]
            labels = template["metadata"]["labels"]
            yield _node(plan, f"{manifest.name}-0", labels, template["spec"].get("taints", []))
        elif manifest.kind == "Node":
            labels = dict(manifest.labels)
            yield _node(plan, manifest.name, labels, manifest.body.get("spec", {}).get("taints", []))


def _node(plan: Plan, name: str, labels: Object, taints: list[Object]) -> Object:
    annotations = {"simulated.gpupool.dev/gpu": plan.pool(labels[POOL]).gpu.key} if POOL in labels else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {"taints": taints},
    }


def others() -> Iterator[Object]:
    """A node without GPUs, and one with GPUs that somebody keeps for something else."""
    meta = {"name": "cpu-0", "labels": {"kubernetes.io/os": "linux"}}
    yield {"apiVersion": "v1", "kind": "Node", "metadata": meta}
    yield {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "theirs-0", "annotations": {"simulated.gpupool.dev/gpu": "l4"}},
        "spec": {"taints": [{"key": "example.com/theirs", "value": "render", "effect": "NoSchedule"}]},
    }
