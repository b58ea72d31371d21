"""What the API says of a job. `make schema` writes this file; it must not be edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, TypedDict

from .gpu_types import GPUType


class JobPriority(StrEnum):
    """A job's priority; the environment's priorities say what each may do."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class JobState(StrEnum):
    """Where a job stands."""

    QUEUED = "queued"
    SCHEDULED = "scheduled"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


class WaitReason(StrEnum):
    """Why a job waits."""

    CAPACITY = "capacity"
    """No node has enough free slots."""
    EXCLUSIVE = "exclusive"
    """No node is empty, or exclusive jobs hold the nodes."""
    SPOT_SHARE = "spot_share"
    """The job would move the pool away from its share of spot nodes."""
    RESERVATION = "reservation"
    """What it needs is kept for a job that has waited for `reserveAfter`."""
    TENANT_LIMIT = "tenant_limit"
    """The tenant holds what it is granted, or has as many jobs running as it may."""
    BUDGET = "budget"
    """The money that is left does not suffice for what the job may cost."""
    UNSCHEDULABLE = "unschedulable"
    """No end of other jobs lets it start: its pool or tenant is gone, its grant, pool or budget too
    small."""
    BACKOFF = "backoff"
    """It failed, and is tried again later."""
    DEPENDENCY = "dependency"
    """A job or an array that it comes after is not over."""
    QUEUED = "queued"
    """Like jobs of the same tenant go first."""
    NODE = "node"
    """Dispatched; its pod has no node yet: what the scheduler or Karpenter says."""
    STARTING = "starting"
    """Dispatched; its container starts."""
    IMAGE = "image"
    """Dispatched; its image can't be pulled."""
    REFUSED = "refused"
    """Dispatched; a policy or a quota of the cluster refuses its Job or pod."""
    CLUSTER = "cluster"
    """The queue can't reach its cluster, or works on it no longer."""
    NODE_UNREACHABLE = "node_unreachable"
    """Its node does not answer: nothing starts elsewhere until it is back, deleted, or out of service."""
    TERMINATING = "terminating"
    """It is to stop, and its pod has not ended yet."""


class JobSpec(TypedDict, total=False):
    """The fields of a job, all optional: either `container_image` or `target_url` is needed."""

    gpu_pool_requested: str
    """A pool, a GPU such as t4, `mig`, a MIG profile, or `auto` for the cheapest that fits."""
    isolation_level: str
    """Default: shared where the pool can, else exclusive."""
    target_url: str
    """Where an HTTP job is sent; its origin must be allowed."""
    request_json: Any
    """The body that is sent there."""
    container_image: str
    """The image of a container job: [REGISTRY/]NAME[:TAG][@DIGEST]."""
    container_command: list[str]
    """Its command; default: the image's own."""
    env: Mapping[str, str]
    """Its variables."""
    job_name: str
    """A name for people; need not be unique."""
    project_id: str
    """Name or id of a project of the tenant."""
    priority: JobPriority | str
    """Default: medium. A level that the environment lacks falls to the next lower."""
    gpu_type: GPUType | str
    """Key of a GPU in the catalog, such as a100-80gb."""
    gpu_count: int
    """Whole GPUs; 1 where GPUs are shared or partitioned."""
    budget_limit_usd: float
    """What all its attempts may cost."""
    timeout_seconds: int
    """How long an attempt may run; default: the environment's."""
    preemptible: bool
    """Whether it may be stopped for others; default: as its priority says."""
    checkpoint_s3_path: str
    """Where it keeps checkpoints."""
    retries: int
    """Attempts after a failure of its own; default: none."""
    callback_url: str
    """Called when the job has ended; its origin must be allowed."""
    image_pull_secrets: list[str]
    """Secrets for the image's registry."""
    env_from_secrets: list[str]
    """Secrets whose keys are variables."""
    volumes: list[Mapping[str, Any]]
    """PersistentVolumeClaims of the tenant's namespace, and where they are mounted."""
    shm_size: str
    """Size of /dev/shm, such as 8Gi; it counts as memory. Default: half of the pod's memory."""
    scratch_size: str
    """Most that /scratch may hold, such as 50Gi. Default: the job's share of the node's disk."""
    array: int
    """So many jobs with one group_id; each knows its group_index."""
    may_idle: bool
    """It waits at times, so that it is never warned of or stopped as idle."""
    depends_on: str | Sequence[str]
    """Jobs and arrays that must succeed first; the failure of one cancels this."""
    depends_on_ended: str | Sequence[str]
    """Jobs and arrays that must end first, whether they succeed or not."""
    deadline_seconds: int
    """Not started for so long after it was submitted, it expires."""
