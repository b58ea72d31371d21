"""Warm nodes: a small pod on each of so many nodes of a pool, which Karpenter keeps because of it.

The pod asks for no GPU, so every slice of a warm node is free for the first job. Karpenter 1.14 has no
minimum of its own (static pools are alpha and can't also grow).
"""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.environment.plan.karpenter_pools import karpenter_pools
from gpupool.environment.plan.model import POOL_LABEL, SYSTEM_NAMESPACE, Plan, Pool
from gpupool.environment.plan.pods import WARM_CLASS
from gpupool.environment.spec.field_types import PAUSE_IMAGE
from gpupool.generators import restricted_pod
from gpupool.generators.manifest import Manifest
from gpupool.generators.metadata import manifest_of, object_labels

_SELECTOR = "gpupool.dev/warm"


def generate(plan: Plan) -> Iterator[Manifest]:
    for started in karpenter_pools(plan):
        if started.pool.warm:
            yield _deployment(plan, started.pool)


def _deployment(plan: Plan, pool: Pool) -> Manifest:
    labels = {_SELECTOR: pool.name}
    image = plan.karpenter.warm_pod_image if plan.karpenter else PAUSE_IMAGE
    apart = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    template = {
        "metadata": {"labels": {**object_labels(plan, pool), **labels}},
        "spec": {
            "nodeSelector": {POOL_LABEL: pool.name},
            "tolerations": [taint.toleration() for taint in pool.taints],
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}},
            "priorityClassName": WARM_CLASS,
            "terminationGracePeriodSeconds": 0,
            **restricted_pod.POD,
            "containers": [
                {
                    "name": "keep",
                    **restricted_pod.CONTAINER,
                    "image": image,
                    "resources": {
                        "requests": {"cpu": "10m", "memory": "16Mi"},
                        "limits": {"memory": "16Mi"},
                    },
                }
            ],
        },
    }
    spec = {
        "replicas": pool.warm,
        "selector": {"matchLabels": labels},
        # No surge: a second pod of a pool at its maximum would wait for a node that can't come.
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        "template": template,
    }
    return manifest_of(plan, "Deployment", f"warm-{pool.name}", SYSTEM_NAMESPACE, pool=pool, spec=spec)
