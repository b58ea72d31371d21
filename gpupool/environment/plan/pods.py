"""What every pod must say to run on a pool: labels, annotations, node selector, tolerations, resource.

The one place that sample jobs, the queue's jobs and `gpupool snippet` take it from. Here too are the names by
which the queue's own Jobs and pods are known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpupool.environment.plan.model import POOL_LABEL, SYSTEM_NAMESPACE, Pool

JOB_LABEL = "gpupool.dev/job"
"""Id of the queue's job, on its Job and pods. Policies accept it from launcher and Job controller only."""
ATTEMPT_LABEL = "gpupool.dev/attempt"
"""Number of the attempt, beside JOB_LABEL."""
BORROWED_LABEL = "gpupool.dev/borrowed"
"""`true` on Job and pods of an attempt that started beyond its tenant's grant."""
BORROWED_CLASS = "gpupool-borrowed"
"""PriorityClass of these pods: quotas count them apart, and a tenant's own pods take their place. For the
queue's pods alone."""
WARM_CLASS = "gpupool-warm"
"""PriorityClass of the pods that keep nodes warm."""
SHARES_LABEL = "gpupool.dev/shares-gpu"
"""`true` on every GPU pod of a pool whose GPUs may be lent whole: an exclusive job keeps away from it."""
DATABASE_LABEL = "gpupool.dev/database"
"""Id of the database whose queue made a Job and its pods, beside JOB_LABEL."""
RECORDED_FINALIZER = "gpupool.dev/recorded"
"""On the queue's Jobs and pods until their end is in the database."""
RUN_LOCALLY = "gpupool.dev/run-locally"
"""Annotation `true`: the local control plane runs the pod's command as a process. Denied elsewhere."""
MEMORY = "gpupool.dev/gpu-memory"
"""Annotation: how much of a GPU's memory the pod uses at most, where only pods themselves can keep to it."""
LAUNCHER_ACCOUNT, API_ACCOUNT = "gpupool-launcher", "gpupool-api"
"""Service accounts of the queue in SYSTEM_NAMESPACE; `gpupool.generators.rbac` says what each may do."""
LAUNCHER_USER = f"system:serviceaccount:{SYSTEM_NAMESPACE}:{LAUNCHER_ACCOUNT}"
"""Creates the queue's Jobs."""
LEASE = "gpupool-queue"
"""The Lease in SYSTEM_NAMESPACE that says which database's queue a cluster belongs to."""
API_USER = f"system:serviceaccount:{SYSTEM_NAMESPACE}:{API_ACCOUNT}"
"""Asks whose token a request has."""


@dataclass(frozen=True, slots=True)
class PodFields:
    """The fields of a pod that follow from its pool."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    """Where nothing divides a GPU's memory: the equal part that the pod keeps to."""
    spec: Mapping[str, Any]
    """nodeSelector and tolerations; priorityClassName where the pool's quota counts by it."""
    limits: Mapping[str, str]
    """Resource limits of the container that uses the GPU."""


def pod_fields(pool: Pool, resource: str, count: int = 1, priority_class: str | None = None) -> PodFields:
    """What a pod says to get `count` of `resource` on a node of `pool`. Its `priority_class` is that of
    `gpupool.environment.plan.priority_classes`."""
    return PodFields(
        labels={SHARES_LABEL: "true"} if pool.lends_whole_gpus else {},
        annotations={MEMORY: f"{pool.gpu_memory_mib}Mi"} if pool.gpu_memory_mib is not None else {},
        spec={
            "nodeSelector": {POOL_LABEL: pool.name},
            "tolerations": [taint.toleration() for taint in pool.tolerated],
            **({"priorityClassName": priority_class} if priority_class else {}),
        },
        limits={resource: str(count)},
    )
