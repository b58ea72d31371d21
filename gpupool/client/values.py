"""What the client returns: the queue's answers as frozen values.

Unknown fields of an answer are kept in `data` and otherwise ignored, so that the client works with a newer
queue.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, TypedDict, TypeVar

from .job_spec import JobState, WaitReason

_T = TypeVar("_T")


FINAL = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, JobState.EXPIRED})


class JobFilter(TypedDict, total=False):
    """Which jobs to list; a field that is left out matches all jobs."""

    project: str | None
    pool: str | None
    user: str | None
    group: str | None
    name: str | None
    idempotency_key: str | None
    """Jobs that the submission with this key created, of one tenant."""


@dataclass(frozen=True, kw_only=True)
class JobFields:
    """A job as the queue last showed it."""

    id: str
    state: JobState | str
    tenant: str
    project_id: str | None = None
    user_id: str | None = None
    job_name: str = ""
    priority: str = ""
    isolation_level: str = ""
    gpu_pool_requested: str | None = None
    gpu_type: str | None = None
    gpu_count: int = 1
    gpus: float | None = None
    """Physical GPUs that it uses, or would use where it waits; a slice is a fraction of one."""
    pool: str | None = None
    """The pool that it runs on; None while it is queued."""
    capacity_type: str | None = None
    borrowed: bool = False
    """Whether it runs beyond its tenant's grant and is preempted when the lender reclaims capacity."""
    attempt: int = 0
    failures: int = 0
    disruptions: int = 0
    retries: int = 0
    enqueued_at: datetime | None = None
    dispatched_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    waiting: Waiting | None = None
    """Why it waits."""
    reason: str | None = None
    """Why it ended as it did."""
    exit_code: int | None = None
    cost_usd: float = 0.0
    estimate_usd: float = 0.0
    """Maximum cost of an attempt, in USD."""
    group_id: str | None = None
    group_index: int | None = None
    depends_on: tuple[str, ...] = ()
    depends_on_ended: tuple[str, ...] = ()
    version: int = 0
    """Increases with every change."""
    job_ids: tuple[str, ...] = ()
    """All ids of the array, in the answer to a submission."""
    replayed: bool = False
    """Whether an earlier submission with the same Idempotency-Key created the job, and this one created
    nothing. False where this call was only retried."""
    data: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The complete answer."""

    @property
    def ended(self) -> bool:
        return self.state in FINAL

    @property
    def succeeded(self) -> bool:
        return self.state == JobState.SUCCEEDED


@dataclass(frozen=True, kw_only=True)
class Found:
    """Ids that have a common prefix."""

    jobs: tuple[str, ...] = ()
    arrays: tuple[str, ...] = ()
    more: bool = False
    """Whether there are more than these."""


@dataclass(frozen=True, kw_only=True)
class Cancelled:
    """A job that a request to cancel several jobs selected."""

    id: str
    state: JobState | str
    """A job that is not cancelled yet was asked to stop."""


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """Why a job waits."""

    reason: WaitReason | str
    detail: str


@dataclass(frozen=True, kw_only=True)
class Offer:
    """One way to run a job."""

    pool: str
    resource: str = ""
    units: int = 1
    gpus: float = 0.0
    usd_per_hour: float = 0.0
    spot_usd_per_hour: float | None = None


@dataclass(frozen=True, kw_only=True)
class Why:
    """Why a job is queued, and where it is in the queue."""

    id: str
    state: str
    waiting: Waiting | None = None
    position: int | None = None
    """Number of jobs ahead of it."""
    projected_start: datetime | None = None
    projection: str | None = None
    """`start`: projected_start is the time at which it starts; `after`: it starts later than that."""
    terms: Mapping[str, Any] = field(default_factory=dict)
    """Each term that orders the queue, with its values."""
    offers: tuple[Offer, ...] = ()
    estimate_usd: float = 0.0
    cost_usd: float = 0.0
    data: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What would happen to a job if it were submitted."""

    fits: bool
    priority: str = ""
    isolation_level: str = ""
    offers: tuple[Offer, ...] = ()
    """Where it could run, cheapest first."""
    estimate_usd: float = 0.0
    budget_allows: bool = True
    waiting: Waiting | None = None
    """Why it would wait; None if it would start now."""
    position: int | None = None
    projected_start: datetime | None = None
    projection: str | None = None
    """`start`: projected_start is the time at which it would start; `after`: it would start later."""
    data: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The response to an HTTP job's request."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    truncated: bool
    """Whether the body was longer than the first MiB."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """One change of one job."""

    id: str
    type: str
    """As on the bus, such as mlops.gpu.jobs.dispatched.t4.shared."""
    job: str
    seq: int
    tenant: str
    time: datetime | None = None
    project: str | None = None
    pool: str | None = None
    position: int | None = None
    """Position in the stream of all events; `events(after=...)` resumes there."""
    change: Mapping[str, Any] = field(default_factory=dict)
    """Fields that depend on the type."""
    data: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class Pool:
    """A pool of GPUs and its free capacity."""

    name: str
    description: str = ""
    gpu: str = ""
    mode: str = ""
    slots: tuple[Mapping[str, Any], ...] = ()
    """For each resource: total, held and free slots, and prices."""
    data: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class Usage:
    """A tenant's usage between two times."""

    tenant: str
    since: datetime | None = None
    until: datetime | None = None
    gpu_hours: float = 0.0
    cost_usd: float = 0.0
    usage: tuple[Mapping[str, Any], ...] = ()
    """By project and pool."""
    budgets: tuple[Mapping[str, Any], ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


class Manifest(dict[str, Any]):
    """A Kubernetes object that the queue rendered and did not apply."""

    @property
    def yaml(self) -> str:
        """As text for `kubectl apply -f -`: JSON, which is YAML too."""
        return json.dumps(self, indent=2)


@dataclass(frozen=True, kw_only=True)
class Recommendation(Offer):
    """A pool that suits a workload."""

    memory_gib: float = 0.0
    isolated: bool = False
    why: str = ""


def made(kind: type[_T], data: Mapping[str, Any], **more: Any) -> _T:
    """A value of `kind` with those of its fields that `data` has."""
    known = {one.name for one in fields(kind)}  # type: ignore[arg-type]
    given = {name: data[name] for name in known & data.keys() - {"data"}}
    given |= {name: _FORMS[name](value) for name, value in given.items() if name in _FORMS}
    if "data" in known:
        given["data"] = data
    return kind(**given | more)


def answer_of(data: Mapping[str, Any]) -> Answer:
    """The answer to an HTTP job, its body as bytes whatever encoding it came in."""
    text = data["body"]
    body = base64.b64decode(text) if data.get("encoding") == "base64" else text.encode()
    headers = tuple((name, value) for name, value in data["headers"])
    return Answer(status=data["status"], headers=headers, body=body, truncated=data["truncated"])


def event_of(data: Mapping[str, Any], position: int | None = None) -> Event:
    """An event from its envelope (gpupool/environment/schema/job-event.schema.json)."""
    return made(Event, data, job=data["subject"], change=data.get("data", {}), position=position)


def _time(value: Any) -> datetime | None:
    return datetime.fromisoformat(value) if value else None


def _ids(value: Any) -> tuple[str, ...]:
    """Earlier queues answer with one id or null."""
    return (value,) if isinstance(value, str) else tuple(value or ())


def _known(kind: Callable[[str], _T]) -> Callable[[str], _T | str]:
    """A member of `kind`, or as it is: a newer queue may know others."""

    def member(value: str) -> _T | str:
        try:
            return kind(value)
        except ValueError:
            return value

    return member


_reason = _known(WaitReason)


_FORMS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(
        (
            "enqueued_at",
            "dispatched_at",
            "started_at",
            "finished_at",
            "projected_start",
            "since",
            "until",
            "time",
        ),
        _time,
    ),
    **dict.fromkeys(("job_ids", "slots", "usage", "budgets", "jobs", "arrays"), tuple),
    "depends_on": _ids,
    "depends_on_ended": _ids,
    "state": _known(JobState),
    "waiting": lambda value: made(Waiting, value, reason=_reason(value["reason"])) if value else None,
    "offers": lambda value: tuple(made(Offer, one) for one in value),
}
"""How a field's JSON becomes its value, where the two differ."""
