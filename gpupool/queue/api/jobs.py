"""Operations on jobs: submit, validate, list, read, change priority, cancel.

Each checks who asks, asks the store, and answers. Explanations, logs, results and events of one job are in
`gpupool.queue.api.job_details`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Path, Query, Response
from pydantic import BaseModel

from gpupool.environment.money import usd_exact
from gpupool.queue.api import answers
from gpupool.queue.api.accept import (
    Choice,
    accept,
    check_affordable,
    choice_of,
    estimate_micro,
    project_of,
    scope_of,
    tenant_of,
)
from gpupool.queue.api.auth import Reader, Writer, check_commands, principal
from gpupool.queue.api.budgets_json import job_budgets_json
from gpupool.queue.api.context import RequestContext, present
from gpupool.queue.api.explanations import explanation_json, queued_of
from gpupool.queue.api.problems import ApiProblem
from gpupool.queue.api.requests import KEY, UUID, JobRequest, PriorityChange, State
from gpupool.queue.domain.current import Current
from gpupool.queue.domain.fit import rank_of
from gpupool.queue.domain.offers import UnservableRequest
from gpupool.queue.domain.periods import period_end
from gpupool.queue.records import Job, Principal
from gpupool.queue.store import jobs, spending

router = APIRouter(prefix="/api/v1", tags=["jobs"])
_UUID = re.compile(UUID)
HEADER = Header(max_length=200)
IdempotencyKey = Annotated[str | None, Header(min_length=1, max_length=255, pattern=KEY)]

Present = Annotated[RequestContext, Depends(present)]


async def chosen(
    context: Present,
    caller: Annotated[Principal, Depends(principal)],
    x_tenant_id: Annotated[str | None, HEADER] = None,
    x_project_id: Annotated[str | None, HEADER] = None,
    x_user_id: Annotated[str | None, HEADER] = None,
) -> Choice:
    """What the headers choose among what the credential grants. Raises ApiProblem where it does not. A tenant
    that is no longer in the file can be chosen too: its jobs are there to be read and cancelled."""
    current, tenant, project = context.current(), x_tenant_id or None, x_project_id or None
    if tenant is not None and not {tenant, tenant.lower()} & current.tenants.keys():
        former = await spending.former_tenant(context.db, tenant)
        if former is not None and caller.acts_for(former):
            return replace(choice_of(current, caller, None, None, x_user_id or None), tenant=former)
    return choice_of(current, caller, tenant, project, x_user_id or None)


Chosen = Annotated[Choice, Depends(chosen)]
JobId = Annotated[str, Path(max_length=100, description="Id of a job.")]


async def visible(context: RequestContext, principal: Principal, within: str | None, id: str) -> Job:
    """The job of that id, if the caller, who may have chosen a tenant, may see it. Raises ApiProblem: 404 for
    other tenants' jobs too."""
    job = await jobs.job(context.db, id.lower()) if _UUID.fullmatch(id) else None
    if job is None or not principal.acts_for(job.tenant) or within not in (None, job.tenant):
        raise ApiProblem("not-found", f"there is no job {id[:100]}")
    return job


async def _readable(context: Present, caller: Reader, choice: Chosen, id: JobId) -> Job:
    return await visible(context, caller, choice.tenant, id)


async def _changeable(context: Present, caller: Writer, choice: Chosen, id: JobId) -> Job:
    job = await visible(context, caller, choice.tenant, id)
    check_commands(context, caller, job.is_http)
    return job


ReadableJob = Annotated[Job, Depends(_readable)]
"""The job that the request names, of a caller who may read jobs."""
ChangeableJob = Annotated[Job, Depends(_changeable)]
"""The same, of a caller who may change jobs."""


def job_answer(job: Job, context: RequestContext, response: Response) -> dict[str, Any]:
    response.headers["ETag"] = f'"{job.version}"'
    return answers.job_json(job, context.clock(), context.trouble())


@router.post("/gpu-jobs", operation_id="submit_job", status_code=201, response_model=answers.SubmittedBody)
async def submit_job(
    context: Present,
    principal: Writer,
    choice: Chosen,
    body: JobRequest,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> dict[str, Any]:
    """Submit a job, or an array of jobs. Repeating a request with the same Idempotency-Key creates no second
    job; the answer then has the header `Idempotency-Replayed: true`."""
    return await submitted(context, principal, choice, body, response, idempotency_key)


async def submitted(
    context: RequestContext,
    principal: Principal,
    choice: Choice,
    body: JobRequest,
    response: Response,
    idempotency_key: str | None,
    again: tuple[str, Sequence[int]] = ("", ()),
) -> dict[str, Any]:
    """Accept and store what a request makes, and answer. `again`: the job or array that runs again, and the
    indexes in the array of those of its jobs that do. Raises ApiProblem, UnservableRequest, StoreError."""
    check_commands(context, principal, body.target_url is not None)
    at = context.clock()
    current = context.current()
    tenant = tenant_of(current, principal, choice.tenant)
    project = project_of(tenant, choice, body)
    of, indexes = again
    asked = f"{project}\n{choice.user}\n{body.model_dump_json()}{of}"
    key = jobs.Key(idempotency_key, hashlib.sha256(asked.encode()).digest()) if idempotency_key else None
    fresh: Job | None = None
    try:
        accepted = accept(current, tenant, project, choice.user, body, at, principal.commands, indexes)
        made = await _admitted(context, current, accepted)
        check_affordable(current.supply, queued_of(made[0]))
        await _check_budget(context, current, made[0], at)
        stored = await jobs.submit(context.db, made, key, tenant.queued, at)
        fresh = None if stored.replayed or _depends(made[0]) else made[0]
    except (ApiProblem, UnservableRequest):
        # What would be refused now may have been accepted before: the file and what is spent change.
        before = await jobs.made_before(context.db, tenant.name, key) if key else None
        if before is None:
            raise
        stored = before
    job = fresh or await jobs.job(context.db, stored.ids[0])
    if job is None:
        raise ApiProblem("not-found", "the job of this Idempotency-Key is gone")
    response.headers["Location"] = f"/api/v1/gpu-jobs/{job.id}"
    if stored.replayed:
        response.headers["Idempotency-Replayed"] = "true"
    return job_answer(job, context, response) | {"job_ids": stored.ids}


def _depends(job: Job) -> bool:
    return bool(job.depends_on or job.depends_on_ended)


async def _admitted(context: RequestContext, current: Current, made: list[Job]) -> list[Job]:
    """New jobs with those of their offers on which the cluster's policies take them. Raises ApiProblem where
    there is none."""
    job = made[0]
    verdicts = None
    if context.admission is not None and job.request["container_image"] is not None:
        verdicts = await context.admission.verdicts(current)
    if verdicts is None:
        return made
    refusals = {offer: verdicts.refusals(job, offer, current) for offer in job.offers}
    taken = tuple(offer for offer in job.offers if not refusals[offer])
    if taken:
        return made if taken == job.offers else [replace(one, offers=taken) for one in made]
    first, *_ = found = refusals[job.offers[0]]
    raise ApiProblem(
        "policy-refuses",
        f"{first}; change {first.field}" if first.field else str(first),
        errors=[
            {"pointer": f"#/{refusal.field}" if refusal.field else "#", "detail": str(refusal)}
            for refusal in found
        ],
    )


async def _check_budget(context: RequestContext, current: Current, job: Job, at: datetime) -> None:
    """Refuse a new job where a budget is spent whose `onExhausted` is reject. Raises ApiProblem."""
    allowances = current.supply.tenants[job.tenant].budgets
    rejecting = {scope for scope, budget in allowances.items() if budget.on_exhausted == "reject"}
    if rejecting.isdisjoint({job.tenant, f"{job.tenant}/{job.project}"}):
        return
    for budget in job_budgets_json(current, await spending.totals(context.db, at), queued_of(job), 1):
        if budget["scope"] in rejecting and not budget["allows"]:
            spent, held, limit = (usd_exact(budget[f"{name}_usd"]) for name in ("spent", "held", "limit"))
            ends = period_end(budget["period"], at.timestamp())
            raise ApiProblem(
                "budget-exhausted",
                f"{budget['scope']} has spent {spent} of {limit} this {budget['period']}, and {held} are "
                f"held; the {budget['period']} ends at {ends:%Y-%m-%d %H:%M} UTC",
            )


class ValidBody(BaseModel):
    """What would happen to a job if it were submitted."""

    fits: bool
    priority: str
    isolation_level: str
    offers: list[answers.OfferBody]
    """Offers on which it could run, best first."""
    estimate_usd: float
    """Maximum cost on the first offer; of an array, of all its jobs."""
    budgets: list[dict[str, Any]]
    budget_allows: bool
    waiting: answers.WaitingBody | None
    """Why it would wait; null if it would start now."""
    position: int
    projected_start: str | None
    projection: Literal["start", "after"] | None
    """`start`: the job would start then; `after`: it would start later."""
    terms: dict[str, Any]


@router.post("/gpu-jobs:validate", operation_id="validate_job", response_model=ValidBody)
async def validate_job(
    context: Present, principal: Reader, choice: Chosen, body: JobRequest
) -> dict[str, Any]:
    """Whether a job would be accepted, what it would cost and why it would wait. Creates no job. The tenant's
    limit of queued jobs is only checked on submission."""
    at = context.clock()
    current = context.current()
    tenant = tenant_of(current, principal, choice.tenant)
    project = project_of(tenant, choice, body)
    accepted = accept(current, tenant, project, choice.user, body, at, principal.commands)
    made = await _admitted(context, current, accepted)
    job = made[0]
    queued = queued_of(job)
    check_affordable(current.supply, queued)
    if _depends(job):
        await jobs.check_dependencies(context.db, job)
    each = estimate_micro(job.offers[0].rate_micro, job.timeout_s, job.budget_limit_micro)
    estimate = each * len(made)
    explanation = await context.explanations.of(current, queued, at, principal)
    budgets = job_budgets_json(current, await spending.totals(context.db, at), queued, estimate)
    return {
        "fits": True,
        "priority": job.level.name.lower(),
        "isolation_level": job.isolation,
        "offers": answers.offers_json(job),
        "estimate_usd": answers.usd(estimate),
        "budgets": budgets,
        "budget_allows": all(budget["allows"] for budget in budgets),
        **explanation_json(explanation, job.tenant, principal),
    }


@router.get("/gpu-jobs", operation_id="jobs", response_model=answers.JobPage)
async def list_jobs(
    context: Present,
    principal: Reader,
    choice: Chosen,
    state: Annotated[list[State] | None, Query(max_length=7)] = None,
    project: Annotated[str | None, Query(max_length=200)] = None,
    pool: Annotated[str | None, Query(max_length=200)] = None,
    user: Annotated[str | None, Query(max_length=200)] = None,
    group: Annotated[str | None, Query(pattern=UUID)] = None,
    name: Annotated[str | None, Query(max_length=200)] = None,
    idempotency_key: Annotated[str | None, Query(min_length=1, max_length=255, pattern=KEY)] = None,
    cursor: Annotated[str | None, Query(max_length=300)] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> dict[str, Any]:
    """The jobs of the caller's tenants, newest first. A page of large jobs may have fewer than `limit`.
    `idempotency_key` selects the jobs that the tenant's submission with this key created."""
    if idempotency_key is not None:
        tenant = tenant_of(context.current(), principal, choice.tenant)
        first = await jobs.made_by(context.db, tenant.name, idempotency_key)
        if first is None or group not in (None, first.group_id):
            return {"jobs": [], "next": None}
        if first.group_id is None:
            return {"jobs": [answers.job_json(first, context.clock())], "next": None}
        group = first.group_id
    job_filter = jobs.JobFilter(
        tenants=scope_of(principal, choice.tenant),
        states=frozenset(state) if state else None,
        project=project_called(context, project),
        pool=pool,
        user=user,
        group=group,
        name=name,
    )
    page = await jobs.jobs(context.db, job_filter, cursor, limit)
    at = context.clock()
    return {"jobs": [answers.job_json(job, at, context.trouble()) for job in page.jobs], "next": page.next}


def project_called(context: RequestContext, named: str | None) -> str | None:
    """The name of a project that may be given by its id."""
    for tenant in context.plan().tenants:
        for project in tenant.projects:
            if named is not None and named.lower() == project.id:
                return project.name
    return named


@router.get("/gpu-jobs/{id}", operation_id="job", response_model=answers.JobBody)
async def get_job(context: Present, job: ReadableJob, response: Response) -> dict[str, Any]:
    """One job."""
    return job_answer(job, context, response)


@router.patch("/gpu-jobs/{id}", operation_id="set_priority", response_model=answers.JobBody)
async def set_priority(
    context: Present,
    principal: Writer,
    job: ChangeableJob,
    body: PriorityChange,
    response: Response,
    if_match: Annotated[str | None, Header(max_length=100)] = None,
) -> dict[str, Any]:
    """Change the priority of a queued job; with If-Match, only if the job has not changed since."""
    current = context.current()
    if job.tenant not in current.tenants:
        raise ApiProblem("tenant-not-granted", f"tenant {job.tenant} is no longer in the environment file")
    rank = rank_of(current.plan, current.tenants[job.tenant], body.priority, principal.commands)
    preemptible = rank.preemptible and job.request.get("preemptible") is not False
    as_changed = replace(job, level=rank.level, preemptible=preemptible)
    check_affordable(current.supply, queued_of(as_changed))  # critical jobs may have more, and others no spot
    changed = await jobs.reprioritise(
        context.db, job.id, rank.name, rank.level, _version(if_match), preemptible, rank.preempts
    )
    return job_answer(changed, context, response)


def _version(if_match: str | None) -> int | None:
    if if_match is None or if_match.strip() == "*":
        return None
    match = re.fullmatch(r'(?:W/)?"([0-9]{1,9})"', if_match.strip())
    if not match:
        raise ApiProblem("version-conflict", "If-Match is not the ETag of any version of this job")
    return int(match[1])


@router.post("/gpu-jobs/{id}/cancel", operation_id="cancel_job", response_model=answers.JobBody)
async def cancel_job(
    context: Present, principal: Writer, job: ChangeableJob, response: Response
) -> dict[str, Any]:
    """Cancel a job. A queued job ends at once; others are asked to stop; ended jobs do not change."""
    cancelled = await jobs.cancel(context.db, job.id, principal.subject, context.clock())
    return job_answer(cancelled or job, context, response)
