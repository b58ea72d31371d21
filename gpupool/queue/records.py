"""What the parts of the queue hand to each other: jobs, events, credentials, outcomes.

Frozen values without behaviour; the database, HTTP and the decision each have their own forms and convert at
their edge. Money is in micro-USD, GPUs in millionths of a physical GPU, durations in seconds, times are aware
and in UTC. This module must import nothing of gpupool.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple

MICRO = 1_000_000
"""Micro-USD in a USD, and gpu_micro in a GPU."""


class JobState(StrEnum):
    """State of a job."""

    QUEUED = "queued"
    SCHEDULED = "scheduled"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"

    @property
    def final(self) -> bool:
        return self in (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, JobState.EXPIRED)


class Level(IntEnum):
    """Operator-granted priority levels, as `priorities[].level` of the environment file."""

    LOW = 0
    MEDIUM = 1
    HIGH = 2
    CRITICAL = 3


class WaitReason(StrEnum):
    """Why a job waits: for a scheduling decision, then on the cluster for its container."""

    CAPACITY = "capacity"
    TENANT_LIMIT = "tenant_limit"
    UNSCHEDULABLE = "unschedulable"
    """It can't start whatever ends: the environment file or the job has to change."""
    BUDGET = "budget"
    RESERVATION = "reservation"
    EXCLUSIVE = "exclusive"
    SPOT_SHARE = "spot_share"
    BACKOFF = "backoff"
    DEPENDENCY = "dependency"
    QUEUED = "queued"
    """Other jobs of its tenant go first."""
    NODE = "node"
    """Its pod has no node yet."""
    STARTING = "starting"
    """Its container is about to start."""
    IMAGE = "image"
    REFUSED = "refused"
    """A quota or a policy of the cluster refuses its Job or pod."""
    CLUSTER = "cluster"
    """The queue can't work on its cluster."""
    NODE_UNREACHABLE = "node_unreachable"
    TERMINATING = "terminating"
    """It was asked to stop, and its pod is still terminating."""


RENAMED: Mapping[str, str] = {
    "dispatching": "scheduled",
    "turn": "queued",
    "not_possible": "unschedulable",
    "ending": "terminating",
}
"""States and reasons of release 0.1 -> their names now. Requests with an old name are refused with the new
one."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a job waits, with its numbers in one plain sentence."""

    reason: WaitReason
    detail: str

    def as_dict(self) -> dict[str, str]:
        return {"reason": self.reason.value, "detail": self.detail}


@dataclass(frozen=True, slots=True)
class FailedParent:
    """What kept a job from starting that comes after others: the first in the chain that did not succeed."""

    parent: str
    """The one of those it comes after that did not succeed; `job` itself, or cancelled for it."""
    job: str
    state: JobState
    """How it ended."""
    reason: str | None

    def as_dict(self) -> dict[str, str | None]:
        return {"parent": self.parent, "job": self.job, "state": self.state.value, "reason": self.reason}


class Offer(NamedTuple):
    """One way to run a job: on slices of one resource of one pool."""

    pool: str
    resource: str
    """Extended resource name."""
    units: int
    """Slots that it takes; all replicas of a node for an exclusive job on a time-sliced pool."""
    request: int
    """Units of the resource that the pod asks for."""
    gpu_micro: int
    """What it holds of physical GPUs, the whole job."""
    rate_micro: int
    """On-demand price of an hour, the whole job."""
    spot_rate_micro: int | None
    """Spot price of an hour; None where the pool has no spot nodes."""
    key: str
    """Catalog key of the GPU, or `mig`: what its events are called by."""

    def rate(self, capacity_type: str) -> int:
        """Price of an hour on nodes of that capacity type, in millionths of a USD; 0 on reserved ones, which
        are paid for whether they are used or not."""
        if capacity_type == "reserved":
            return 0
        spot = self.spot_rate_micro if capacity_type == "spot" else None
        return self.rate_micro if spot is None else spot

    def as_dict(self) -> dict[str, Any]:
        return self._asdict()


Placement = tuple[tuple[int, int], ...]
"""(logical node of the pool, units taken there) pairs, in order of the node."""


class Given(dict[str, Any]):
    """A request as it is kept, with each version of its job: without fields that are null."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        super().__init__({name: value for name, value in fields.items() if value is not None})

    def __missing__(self, name: str) -> None:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """An accepted request, ready to be stored."""

    id: str
    tenant: str
    project: str | None
    user: str
    name: str
    priority: str
    """As granted when the job was submitted, or its priority changed."""
    level: Level
    """What the priority comes to under the present Plan; never above the tenant's maxPriority."""
    isolation: str
    """shared or exclusive."""
    gpu_count: int
    preemptible: bool
    """Whether the job and its priority both allow it."""
    preempts: bool
    """Whether its priority may preempt others."""
    retries: int
    timeout_s: int
    budget_limit_micro: int | None
    offers: tuple[Offer, ...]
    """Cheapest first; none while the Plan in force makes none: then the job waits as unschedulable."""
    request: Mapping[str, Any]
    """The accepted request: what it says, and None for what it leaves out (`Given`)."""
    plan_hash: str
    """The Plan that the offers are of: nothing starts by offers of another one."""
    group_id: str | None = None
    group_index: int | None = None
    depends_on: tuple[str, ...] = ()
    """Jobs and arrays that must succeed first; otherwise the job is cancelled."""
    depends_on_ended: tuple[str, ...] = ()
    """Jobs and arrays that must end first, however they do."""
    deadline_at: datetime | None = None
    """A job that is still queued then expires."""

    @property
    def is_http(self) -> bool:
        """Whether it is a request that the queue sends; else it runs a command."""
        return bool(self.request.get("target_url"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(NewJob):
    """A stored job: what was accepted, and what became of it."""

    state: JobState
    version: int
    """Grows with every change; the ETag."""
    attempt: int
    """The fence: grows with every claim."""
    failures: int
    disruptions: int
    enqueued_at: datetime
    blocked: bool = False
    """What it depends on is not over."""
    not_before: datetime | None = None
    dispatched_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    pool: str | None = None
    resource: str | None = None
    capacity_type: str | None = None
    """spot or on-demand."""
    borrowed: bool = False
    """Whether its attempt started beyond its tenant's grant."""
    placement: Placement = ()
    gpu_micro: int | None = None
    rate_micro: int | None = None
    """Price of an hour of this attempt."""
    hold_micro: int | None = None
    run_limit_s: int | None = None
    """The run time that the hold pays for; at most timeout_s."""
    waiting: Waiting | None = None
    preempt_reason: str | None = None
    """Set while the running attempt is asked to stop for another job."""
    cancel_requested: bool = False
    reason: str | None = None
    """In one word or sentence; `dependency` where `cause` says more."""
    cause: FailedParent | None = None
    exit_code: int | None = None
    cost_micro: int = 0
    """Settled cost of all attempts."""

    @property
    def attempt_limit_s(self) -> int:
        """How long its attempt may run."""
        return self.run_limit_s or self.timeout_s


@dataclass(frozen=True, slots=True)
class JobEvent:
    """One change of one job, as the outbox keeps it."""

    id: str
    job: str
    seq: int
    """Counts the job's events from 1 without a gap."""
    type: str
    """enqueued, dispatched, launched, started, requeued, preempted, idle, priority_changed, a final state, or
    callback_failed after it."""
    tenant: str
    project: str | None
    pool: str | None
    at: datetime
    data: Mapping[str, Any]
    position: int | None = None
    """Place in the stream of all events, without a gap; None until the relay has placed it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended."""

    kind: str
    """succeeded, failed (counts against retries), disrupted (does not), preempted, cancelled, timeout."""
    reason: str | None = None
    exit_code: int | None = None
    retry: bool = True
    """False where another attempt can't help."""
    pause_s: float = 0.0
    """What has to pass before another attempt at least."""
    platform_retries: int | None = None
    """How often a failure of the platform's, before the attempt has started, is retried; None: the failure is
    the job's own."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who a verified credential stands for."""

    subject: str
    tenants: frozenset[str]
    """Names of the tenants that it may act for; with `*` all of them."""
    scopes: frozenset[str]
    """jobs:read, jobs:write, usage:read, admin."""
    source: str
    """key, oidc, pod or dev."""
    commands: bool = True
    """Whether it may submit and change container jobs, and take others' place."""

    @property
    def rate_limit_key(self) -> str:
        """Key by which its requests are counted."""
        return f"{self.source} {self.subject}"

    def acts_for(self, tenant: str) -> bool:
        return "*" in self.tenants or tenant in self.tenants

    def may(self, scope: str) -> bool:
        return scope in self.scopes or "admin" in self.scopes


@dataclass(frozen=True, slots=True)
class ApiKey:
    id: str
    name: str
    tenants: tuple[str, ...]
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class PlanInForce:
    """The Plan by which the leader decides."""

    hash: str
    since: datetime
    holder: str
    """The process that leads."""


class Start(NamedTuple):
    """The decision to start a job."""

    job: str
    attempt: int
    """The attempt that the decision saw; the claim makes it one more."""
    tenant: str
    offer: Offer
    capacity_type: str
    placement: Placement
    rate_micro: int
    hold_micro: int
    run_limit_s: int
    charge: int
    """How far it moves the tenant's fair clock on this pool."""
    borrowed: bool = False
    """Whether it starts beyond its tenant's grant."""


@dataclass(frozen=True, slots=True)
class Preempt:
    """The decision to preempt a running attempt."""

    job: str
    attempt: int
    beneficiary: str
    reason: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What one round decides."""

    starts: tuple[Start, ...] = ()
    preempts: tuple[Preempt, ...] = ()
    waits: Mapping[str, Waiting] = field(default_factory=dict)
    """Job -> why, for each head that stays."""
    reservations: Mapping[str, str] = field(default_factory=dict)
    """Bound (as `gpupool.queue.domain.reservations` names it) -> job, all that hold after this round."""
    floors: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """(pool, tenant) -> least fair clock, for the next round's snapshot; not stored."""
    reclaiming: frozenset[tuple[str, str]] = frozenset()
    """(pool, resource) on which borrowed jobs are preempted, now or after their minimum run time."""
    exhausted: frozenset[tuple[str, str]] = frozenset()
    """Lanes (tenant, lane) all of whose jobs in the snapshot start or reclaim: those behind might too."""


def new_id(at: float | None = None) -> str:
    """A UUID of version 7 (RFC 9562): its text sorts by time. `at`: epoch seconds, now by default."""
    millis = int((time.time() if at is None else at) * 1000)
    value = millis << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return str(uuid.UUID(int=value))
