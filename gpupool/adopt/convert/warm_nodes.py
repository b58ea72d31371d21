"""Deployments that keep nodes warm -> `nodes.warm`, and the image of their pods."""

from __future__ import annotations

from gpupool.adopt.convert.cluster_objects import ClusterObjects, list_as_foreign, ours
from gpupool.adopt.convert.draft import Draft
from gpupool.adopt.convert.values import as_whole
from gpupool.environment.plan.model import POOL_LABEL
from gpupool.environment.spec.field_types import PAUSE_IMAGE


def make(cluster: ClusterObjects, draft: Draft) -> None:
    """Put on `draft`, whose pools are complete, how many nodes of each pool are kept warm."""
    for part in cluster.all("Deployment"):
        label = part.word("metadata", "labels", POOL_LABEL)
        replicas = as_whole(part.at("spec", "replicas").value)
        pool = next((pool for pool in draft.pools if pool.name == label), None)
        if pool is not None and ours(part) and replicas is not None:
            pool.warm = replicas
            images = [row.word("image") for row in part.at("spec", "template", "spec", "containers").each()]
            if images not in ([], [PAUSE_IMAGE]):
                draft.karpenter["warmPodImage"] = images[0]
            part.derived()
        else:
            list_as_foreign(part, "a workload, not a pool")
