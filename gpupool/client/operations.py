"""The operations of the queue's API as values: the request, and how its answer is parsed.

Pure: `Client` and `AsyncClient` send these, and most of their methods are made of them. An operation is
`repeatable` where sending it twice is the same as sending it once.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar, Unpack
from urllib.parse import quote

from .job_spec import JobPriority, JobSpec
from .values import (
    Answer,
    Cancelled,
    Event,
    Forecast,
    Found,
    JobFilter,
    Manifest,
    Pool,
    Recommendation,
    Usage,
    Why,
    answer_of,
    event_of,
    made,
)

_T = TypeVar("_T", covariant=True)
_JOBS = "/api/v1/gpu-jobs"
EVENT_STREAM = "text/event-stream"
_STREAM = {"Accept": EVENT_STREAM}
KEY = "Idempotency-Key"
Data = dict[str, Any]


@dataclass(frozen=True)
class Call(Generic[_T]):
    """One request, and what its answer means."""

    method: str
    path: str
    parse: Callable[[Any], _T]
    """Of the answer's JSON."""
    params: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    json: Any = None
    repeatable: bool = True


@dataclass(frozen=True)
class Page:
    """Part of a list of jobs."""

    jobs: tuple[Data, ...]
    next: str | None
    """Cursor of the next page; None on the last."""


def submit(spec: JobSpec, key: str | None = None) -> Call[Data]:
    """Submit a job. Repeating this with the same `key` and fields creates no second job."""
    headers = {KEY: key or str(uuid.uuid4())}
    return Call("POST", _JOBS, dict, headers=headers, json=_body(spec))


def validate(spec: JobSpec) -> Call[Forecast]:
    """What would happen to a job if it were submitted; creates none."""
    return Call("POST", f"{_JOBS}:validate", lambda data: made(Forecast, data), json=_body(spec))


def job(id: str) -> Call[Data]:
    """The job in its current state."""
    return Call("GET", _job(id), dict)


def jobs(
    states: tuple[str, ...] = (), cursor: str | None = None, limit: int = 50, **filter: Unpack[JobFilter]
) -> Call[Page]:
    """A page of jobs, newest first."""
    params = _given(state=list(states), cursor=cursor, limit=limit, **filter)
    return Call("GET", _JOBS, lambda data: Page(tuple(data["jobs"]), data.get("next")), params=params)


def cancel(id: str) -> Call[Data]:
    """Cancel a job. A queued job ends at once; others are asked to stop."""
    return Call("POST", f"{_job(id)}/cancel", dict)


@dataclass(frozen=True)
class CancelledPage:
    """The jobs that one request to cancel several jobs selected."""

    jobs: tuple[Cancelled, ...]
    more: bool
    """Whether more jobs match; repeat the request."""


def cancel_jobs(
    states: tuple[str, ...], everything: bool, **filter: Unpack[JobFilter]
) -> Call[CancelledPage]:
    """Cancel the jobs of a tenant that match, up to 1000 at a time."""
    body = _given(state=list(states), **filter) | ({"all": True} if everything else {})

    def parse(data: Data) -> CancelledPage:
        return CancelledPage(tuple(made(Cancelled, row) for row in data["jobs"]), data["more"])

    return Call("POST", f"{_JOBS}:cancel", parse, json=body)


def find(id: str) -> Call[Found]:
    """Jobs and arrays whose id has this prefix of eight characters or more."""
    return Call("GET", f"{_JOBS}:find", lambda data: made(Found, data), params={"id": id})


def rerun(id: str, changes: JobSpec, unsuccessful: bool = False, key: str | None = None) -> Call[Data]:
    """Submit a job, or the jobs of an array, again with `changes`."""
    headers = {"Idempotency-Key": key or str(uuid.uuid4())}
    body = {"changes": dict(changes), "unsuccessful": unsuccessful}
    return Call("POST", f"{_job(id)}/rerun", dict, headers=headers, json=body)


def set_priority(id: str, priority: JobPriority | str, version: int | None = None) -> Call[Data]:
    """Change a queued job's priority; with `version`, only if the job has not changed since."""
    headers = {} if version is None else {"If-Match": f'"{version}"'}
    return Call(
        "PATCH",
        _job(id),
        dict,
        headers=headers,
        json={"priority": str(priority)},
        repeatable=version is None,
    )


def why(id: str) -> Call[Why]:
    """Why a job is queued, with each term of the scheduling decision."""
    return Call("GET", f"{_job(id)}/why", lambda data: made(Why, data))


def result(id: str) -> Call[Answer]:
    """The response to an HTTP job's request."""
    return Call("GET", f"{_job(id)}/result", answer_of)


def history(id: str) -> Call[tuple[Event, ...]]:
    """All events of a job, in order."""
    return Call("GET", f"{_job(id)}/events", lambda data: tuple(event_of(one) for one in data["events"]))


def logs(
    id: str,
    follow: bool = False,
    attempt: int | None = None,
    after: int | None = None,
    tail: int | None = None,
    since: int | None = None,
) -> Call[None]:
    """A stream of server-sent events: the output of all attempts, or of one, from after a position; else, of
    what there is, the last `tail` lines, or what was printed in the last `since` seconds."""
    end = {"after": after} if after is not None else {"tail": tail, "since": since}
    params = _given(follow="true" if follow else None, attempt=attempt, **end)
    return Call("GET", f"{_job(id)}/logs", _unread, params=params, headers=_STREAM)


def events(after: int | None = None) -> Call[None]:
    """A stream of server-sent events."""
    headers = {} if after is None else {"Last-Event-ID": str(after)}
    return Call("GET", "/api/v1/events", _unread, headers=_STREAM | headers)


def pools() -> Call[tuple[Pool, ...]]:
    return Call("GET", "/api/v1/pools", lambda data: tuple(made(Pool, one) for one in data["pools"]))


def usage(tenant: str, since: datetime | None = None, until: datetime | None = None) -> Call[Usage]:
    params = _given(since=since.isoformat() if since else None, until=until.isoformat() if until else None)
    path = f"/api/v1/tenants/{quote(tenant, safe='')}/usage"
    return Call("GET", path, lambda data: made(Usage, data), params=params)


def recommendations(
    memory_gib: float, kind: str = "training", gpus: int = 1
) -> Call[tuple[Recommendation, ...]]:
    """Pools that fit a piece of work, best first; kind: training, inference or interactive."""
    return Call(
        "GET",
        "/api/v1/recommendations",
        lambda data: tuple(made(Recommendation, one) for one in data["recommendations"]),
        params={"memory_gib": memory_gib, "kind": kind, "gpus": gpus},
    )


def create_ray_cluster(
    worker_node_type: str,
    min_workers: int = 0,
    max_workers: int = 2,
    *,
    gpu_count: int = 1,
    profile: str | None = None,
) -> Call[Manifest]:
    """The manifest of a RayCluster with `gpu_count` GPUs or slices of the pool `worker_node_type` per worker.
    Ray's autoscaler starts as many, from `min_workers` to `max_workers`, as tasks need. This creates nothing
    on the cluster: fill in the image and apply its `yaml` with kubectl."""
    params = _given(
        min_workers=min_workers, max_workers=max_workers, gpu_count=gpu_count, profile=profile
    ) | {"for": "raycluster"}
    path = f"/api/v1/pools/{quote(worker_node_type, safe='')}/snippet"
    return Call("GET", path, Manifest, params=params)


def _unread(_: Any) -> None:
    """Of a stream, which is read line by line."""


def _body(spec: JobSpec) -> Data:
    """The fields that are given. One that is None is left out, so that a default of the queue's holds."""
    return {name: value for name, value in spec.items() if value is not None}


def _job(id: str) -> str:
    return f"{_JOBS}/{quote(id, safe='')}"


def _given(**params: Any) -> Data:
    return {name: value for name, value in params.items() if value not in (None, [])}
