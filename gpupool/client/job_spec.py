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
    """No node is empty, or exclusive jobs occupy the nodes."""
    SPOT_SHARE = "spot_share"
    """The nodes on which the pool's spot share places the job are full."""
    RESERVATION = "reservation"
    """The capacity is reserved for a job that has waited for `reserveAfter`."""
    TENANT_LIMIT = "tenant_limit"
    """The tenant uses its whole grant, or has reached its limit of running jobs."""
    BUDGET = "budget"
    """The remaining budget is less than the job may cost."""
    UNSCHEDULABLE = "unschedulable"
    """The job can't start even if all other jobs end: its pool or tenant no longer exists, or its grant,
    pool or budget is too small."""
    BACKOFF = "backoff"
    """The last attempt failed, and the next one is delayed."""
    DEPENDENCY = "dependency"
    """A job or an array that it depends on has not ended."""
    QUEUED = "queued"
    """Jobs of the same tenant with the same request go first."""
    NODE = "node"
    """Scheduled; its pod has no node yet: the message of the scheduler or of Karpenter."""
    STARTING = "starting"
    """Scheduled; its container is starting."""
    IMAGE = "image"
    """Scheduled; its image can't be pulled."""
    REFUSED = "refused"
    """Scheduled; an admission policy or a quota of the cluster rejects its Job or pod."""
    CLUSTER = "cluster"
    """The queue can't reach its cluster, or another queue has taken it over."""
    NODE_UNREACHABLE = "node_unreachable"
    """Its node is unreachable; no other attempt starts until the node is back, deleted, or out of
    service."""
    TERMINATING = "terminating"
    """It was asked to stop, and its pod is still terminating."""


class JobSpec(TypedDict, total=False):
    """The fields of a job, all optional: either `container_image` or `target_url` is needed."""

    gpu_pool_requested: str
    """A pool, a GPU such as t4, `mig`, a MIG profile, or `auto` for the cheapest that fits."""
    isolation_level: str
    """Default: shared if the pool supports it, else exclusive."""
    target_url: str
    """URL that an HTTP job is sent to; its origin must be allowed."""
    request_json: Any
    """JSON body of the HTTP request."""
    container_image: str
    """Image of a container job: [REGISTRY/]NAME[:TAG][@DIGEST]."""
    container_command: list[str]
    """Command of the container; default: the image's."""
    env: Mapping[str, str]
    """Environment variables of the container."""
    job_name: str
    """Display name; need not be unique."""
    project_id: str
    """Name or id of a project of the tenant."""
    priority: JobPriority | str
    """Default: medium. If the environment lacks the level, the next lower one applies."""
    gpu_type: GPUType | str
    """Key of a GPU in the catalog, such as a100-80gb."""
    gpu_count: int
    """Number of whole GPUs; 1 on shared or partitioned GPUs."""
    budget_limit_usd: float
    """Maximum cost of all attempts, in USD."""
    timeout_seconds: int
    """Maximum run time of an attempt; default: the environment's."""
    preemptible: bool
    """Whether other jobs may preempt it; default: that of its priority."""
    checkpoint_s3_path: str
    """S3 prefix for its checkpoints."""
    retries: int
    """Maximum number of retries after the job's own failures; default: 0."""
    callback_url: str
    """URL called when the job has ended; its origin must be allowed."""
    image_pull_secrets: list[str]
    """Secrets of type dockerconfigjson for the image's registry."""
    env_from_secrets: list[str]
    """Secrets whose keys become environment variables."""
    volumes: list[Mapping[str, Any]]
    """PersistentVolumeClaims of the tenant's namespace and their mount paths."""
    shm_size: str
    """Size of /dev/shm, such as 8Gi; it counts as memory. Default: half of the pod's memory."""
    scratch_size: str
    """Size limit of /scratch, such as 50Gi. Default: the job's share of the node's disk."""
    array: int
    """Number of jobs to submit with one group_id and a group_index each."""
    may_idle: bool
    """Never warn about the job or stop it when its GPU is idle."""
    depends_on: str | Sequence[str]
    """Jobs and arrays that must succeed first; if one fails, this job is cancelled."""
    depends_on_ended: str | Sequence[str]
    """Jobs and arrays that must end first, whether they succeed or not."""
    deadline_seconds: int
    """The job expires if it has not started this long after submission."""
