"""What the API answers: the models of jobs, offers and events, and what they are made of.

FastAPI makes a model of what an operation returns, and the answer and the OpenAPI document of the model. No
I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel
from starlette.responses import Response

from gpupool.queue.api.accept import estimate_micro
from gpupool.queue.api.requests import JobRequest
from gpupool.queue.domain.reasons import of_end
from gpupool.queue.records import MICRO, Job, JobState, Offer, Waiting, WaitReason
from gpupool.queue.store.dependents import waits_until
from gpupool.queue.text_secrets import HIDDEN, value_without_secrets, words_without_secrets
from gpupool.queue.trouble import Trouble


class WaitingBody(BaseModel):
    reason: WaitReason
    detail: str


class CauseBody(BaseModel):
    """The first job of a chain that did not succeed; the jobs that depend on it were cancelled."""

    parent: str
    """The direct dependency that did not succeed."""
    job: str
    state: Literal["failed", "cancelled", "expired"]
    reason: str | None


class JobBody(BaseModel):
    """A job. Times are in UTC, sums in USD."""

    id: str
    state: Literal["queued", "scheduled", "running", "succeeded", "failed", "cancelled", "expired"]
    tenant: str
    project_id: str | None
    user_id: str
    job_name: str
    priority: Literal["critical", "high", "medium", "low"]
    isolation_level: Literal["shared", "exclusive"]
    gpu_pool_requested: str
    gpu_type: str | None
    gpu_count: int
    gpus: float
    """Physical GPUs that it uses, or would use on its first offer; a slice is a fraction of one."""
    pool: str | None
    capacity_type: str | None
    borrowed: bool
    """Whether it runs beyond its tenant's grant and is preempted when the lender reclaims capacity."""
    attempt: int
    failures: int
    disruptions: int
    retries: int
    enqueued_at: datetime
    dispatched_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    deadline_at: datetime | None
    waiting: WaitingBody | None
    reason: str | None
    cause: CauseBody | None
    exit_code: int | None
    cost_usd: float
    estimate_usd: float
    group_id: str | None
    group_index: int | None
    depends_on: list[str]
    """Jobs and arrays that must succeed first."""
    depends_on_ended: list[str]
    """Jobs and arrays that must end first, however they do."""
    version: int
    container_image: str | None
    container_command: list[str] | None
    env: dict[str, str]
    """Names of the variables; no value is shown."""
    target_url: str | None
    request_json: Any
    timeout_seconds: int
    budget_limit_usd: float | None
    preemptible: bool
    checkpoint_s3_path: str | None
    callback_url: str | None
    image_pull_secrets: list[str]
    env_from_secrets: list[str]
    volumes: list[dict[str, Any]]
    shm_size: str | None
    scratch_size: str | None
    may_idle: bool
    plan_hash: str


class SubmittedBody(JobBody):
    """The job that was made; of an array the first, with the ids of all."""

    job_ids: list[str]


class JobPage(BaseModel):
    jobs: list[JobBody]
    next: str | None
    """Cursor of the next page; null on the last."""


class OfferBody(BaseModel):
    pool: str
    resource: str
    units: int
    gpus: float
    usd_per_hour: float
    spot_usd_per_hour: float | None


class EventBody(BaseModel):
    """A job's event, as on the bus (CloudEvents 1.0)."""

    specversion: str
    datacontenttype: str
    id: str
    source: str
    type: str
    subject: str
    time: datetime
    tenant: str
    project: str | None
    pool: str | None
    seq: int
    data: dict[str, Any]


class EventList(BaseModel):
    events: list[EventBody]


def usd(micro: int) -> float:
    return micro / MICRO


def time_text(at: datetime | None) -> str | None:
    """RFC 3339 in UTC."""
    return None if at is None else at.isoformat().replace("+00:00", "Z")


def waiting_of(job: Job, at: datetime, trouble: Trouble | None = None) -> Waiting | None:
    """Why the job waits, in the queue or on the cluster: as the leader wrote it, and what the job itself says
    until then; and before both what keeps the queue from working on its cluster."""
    if trouble is not None and not job.state.final and _needs_cluster(job, trouble):
        return Waiting(WaitReason.CLUSTER, str(trouble))
    if job.state is not JobState.QUEUED:
        return job.waiting
    if not job.offers:
        return job.waiting
    if job.blocked:
        return Waiting(WaitReason.DEPENDENCY, waits_until(job))
    if job.not_before is not None and job.not_before > at:
        return Waiting(WaitReason.BACKOFF, f"the next attempt may start at {job.not_before:%H:%M:%S} UTC")
    return job.waiting or Waiting(WaitReason.QUEUED, f"other jobs of {job.tenant} go first")


def request_json(job: Job) -> dict[str, Any]:
    """What was asked for, as it may be shown: of variables the names, and no secret that is known as one. The
    stored request stays whole: it is what runs."""
    shown = dict(job.request)
    for name in ("target_url", "request_json", "callback_url"):
        shown[name] = value_without_secrets(shown.get(name))
    shown["env"] = dict.fromkeys(job.request.get("env") or {}, HIDDEN)
    if job.request.get("container_command"):
        shown["container_command"] = words_without_secrets(job.request["container_command"])
    return shown


def _needs_cluster(job: Job, trouble: Trouble) -> bool:
    """Whether a job can't go on: those that hold a place wait for the cluster; nothing else starts while that
    is another queue's."""
    return trouble.keeps_off if job.state is JobState.QUEUED else not job.is_http


def _gpus(job: Job) -> float:
    """What it holds of GPUs, or would on its first offer; 0 where no offer is left."""
    offered = job.offers[0].gpu_micro if job.offers else 0
    return (offered if job.gpu_micro is None else job.gpu_micro) / MICRO


def job_json(job: Job, at: datetime, trouble: Trouble | None = None) -> dict[str, Any]:
    """What a JobBody is made of."""
    rate = job.rate_micro
    if rate is None:
        rate = job.offers[0].rate_micro if job.offers else 0
    return {
        **_DEFAULTS,
        **request_json(job),
        **{name: getattr(job, name) for name in _OF_JOB},
        "project_id": job.project,
        "user_id": job.user,
        "job_name": job.name,
        "priority": job.level.name.lower(),
        "isolation_level": job.isolation,
        "gpus": _gpus(job),
        "waiting": waiting_of(job, at, trouble),
        "reason": of_end(job),
        "cost_usd": usd(job.cost_micro),
        "estimate_usd": usd(estimate_micro(rate, job.timeout_s, job.budget_limit_micro)),
        "timeout_seconds": job.timeout_s,
        "budget_limit_usd": None if job.budget_limit_micro is None else usd(job.budget_limit_micro),
    }


_OF_JOB = tuple(field.name for field in fields(Job) if field.name in JobBody.model_fields)
_DEFAULTS = {name: field.default for name, field in JobRequest.model_fields.items()}
"""For what a job does not have that was accepted before there was such a field."""


def offer_json(offer: Offer) -> dict[str, Any]:
    """What an OfferBody is made of."""
    return {
        "pool": offer.pool,
        "resource": offer.resource,
        "units": offer.units,
        "gpus": offer.gpu_micro / MICRO,
        "usd_per_hour": usd(offer.rate_micro),
        "spot_usd_per_hour": None if offer.spot_rate_micro is None else usd(offer.spot_rate_micro),
    }


def offers_json(job: Job) -> list[dict[str, Any]]:
    return [offer_json(offer) for offer in job.offers]


def decision_json(job: Job) -> dict[str, Any] | None:
    """How the latest attempt was dispatched; None before the first."""
    if job.dispatched_at is None:
        return None
    return {
        **{name: getattr(job, name) for name in _OF_DECISION},
        "usd_per_hour": None if job.rate_micro is None else usd(job.rate_micro),
        "hold_usd": None if job.hold_micro is None else usd(job.hold_micro),
        "run_limit_seconds": job.run_limit_s,
    }


_OF_DECISION = [
    "attempt",
    "dispatched_at",
    "pool",
    "resource",
    "capacity_type",
    "borrowed",
    "placement",
    "plan_hash",
]
"""Attributes of a job that are fields of its decision as they are."""


def of_text(media_types: Sequence[str], description: str) -> dict[str, Any]:
    """How an operation is documented whose answer is text, in one of these forms."""
    content = {media_type: {"schema": {"type": "string"}} for media_type in media_types}
    return {
        "response_class": Response,
        "responses": {200: {"content": content, "description": description}},
    }
