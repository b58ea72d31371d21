"""Pods on pools, as these tests make and find them."""

from __future__ import annotations

from typing import Any

from gpupool.environment.plan.model import POOL_LABEL, Pool
from gpupool.environment.plan.pods import pod_fields


def make_pods(
    kube: Any,
    pool: Pool,
    resources: list[str],
    first: int = 0,
    *,
    namespace: str = "default",
    tolerate: bool = True,
) -> None:
    """One pod `<pool>-<number>` for each resource name, asking for one of it on the pool's nodes."""
    for number, resource in enumerate(resources, first):
        fields = pod_fields(pool, resource)
        selected = fields.spec if tolerate else {**fields.spec, "tolerations": []}
        kube.api.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"{pool.name}-{number}",
                    "namespace": namespace,
                    "labels": {"of": pool.name, **fields.labels},
                },
                "spec": {
                    **selected,
                    "terminationGracePeriodSeconds": 0,
                    "containers": [
                        {"name": "work", "image": "example/work:1", "resources": {"limits": fields.limits}}
                    ],
                },
            }
        )


def nodes_of(kube: Any, pool: Pool) -> list[str]:
    return sorted(node["metadata"]["name"] for node in kube.nodes(f"{POOL_LABEL}={pool.name}"))


def running_on(kube: Any, pool: Pool, count: int) -> bool:
    """Whether so many pods of the pool run, all on its nodes; says how many do otherwise."""
    running = kube.running("default", f"of={pool.name}")
    assert len(running) == count, f"{len(running)} of {count} pods of {pool.name} run"
    names = set(nodes_of(kube, pool))
    return all(pod["spec"]["nodeName"] in names for pod in running)


def within_bound(cluster: Any, pool: Pool) -> bool:
    """Whether the pool's nodes offer no more than the plan says."""
    nodes = cluster.nodes(f"{POOL_LABEL}={pool.name}")
    return len(nodes) <= pool.nodes_max and all(
        sum(int(node["status"].get("capacity", {}).get(name, 0)) for node in nodes) <= most
        for name, most in pool.slices_max.items()
    )


def refusal(kube: Any, pool: Pool) -> str | None:
    """What Karpenter says of a pod of the pool that can't have a node."""
    pending = [
        pod for pod in kube.pods("default", f"of={pool.name}") if pod["status"].get("phase") == "Pending"
    ]
    for pod in pending:
        for event in kube.events(pod["metadata"]["name"], "default"):
            if "limits" in event and pool.name in event:
                return event
    return None
