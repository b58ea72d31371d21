"""Operations on several jobs: what a beginning of an id means, cancelling by a filter, running again.

Who may see or change one job may see or change these, and no more.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from gpupool.queue.api import answers
from gpupool.queue.api.accept import Choice, scope_of, tenant_of
from gpupool.queue.api.auth import Reader, Writer, check_commands
from gpupool.queue.api.context import RequestContext
from gpupool.queue.api.jobs import Chosen, IdempotencyKey, JobId, Present, project_called, submitted, visible
from gpupool.queue.api.problems import ApiProblem
from gpupool.queue.api.requests import BEGINNING, CancelRequest, JobRequest, RerunRequest
from gpupool.queue.records import Job, JobState, Principal
from gpupool.queue.store import jobs, several_jobs
from gpupool.queue.store.dependents import is_id

router = APIRouter(prefix="/api/v1", tags=["jobs"])
RESOURCES = frozenset({
    "budget_limit_usd", "deadline_seconds", "depends_on", "depends_on_ended", "gpu_count",
    "gpu_pool_requested", "gpu_type", "isolation_level", "job_name", "may_idle", "preemptible", "priority",
    "project_id", "retries", "scratch_size", "shm_size", "timeout_seconds",
})  # fmt: skip
"""Fields that say where and when a job runs, and nothing of what runs."""


class FoundBody(BaseModel):
    """Ids with the given prefix, at most ten of a kind."""

    jobs: list[str]
    arrays: list[str]
    more: bool
    """Whether there are more than these."""


@router.get("/gpu-jobs:find", operation_id="find", response_model=FoundBody)
async def find(
    context: Present,
    principal: Reader,
    choice: Chosen,
    id: Annotated[
        str,
        Query(
            max_length=36,
            pattern=BEGINNING,
            description="Id of a job or an array, or a prefix of one.",
        ),
    ],
) -> dict[str, Any]:
    """Jobs and arrays of the caller's tenants whose id has this prefix."""
    beginning = await several_jobs.find(
        context.db, id.replace("-", "").lower()[:32], scope_of(principal, choice.tenant)
    )
    ids = {"jobs": beginning.jobs[: several_jobs.LISTED], "arrays": beginning.arrays[: several_jobs.LISTED]}
    return {**ids, "more": max(len(beginning.jobs), len(beginning.arrays)) > several_jobs.LISTED}


class CancelledJob(BaseModel):
    id: str
    state: Literal["cancelled", "scheduled", "running"]
    """A job that is not cancelled yet was asked to stop."""


class CancelledBody(BaseModel):
    """The jobs that a request to cancel selected."""

    jobs: list[CancelledJob]
    more: bool
    """Whether more jobs match; send the request again."""


@router.post("/gpu-jobs:cancel", operation_id="cancel_jobs", response_model=CancelledBody)
async def cancel_jobs(
    context: Present, principal: Writer, choice: Chosen, body: CancelRequest
) -> dict[str, Any]:
    """Cancel jobs of one tenant, up to 1000 in one transaction. Queued jobs end at once; others are asked to
    stop. Repeat the request while `more` is true."""
    check_commands(context, principal, http_job=False)
    if body.group is not None:
        tenant = (await _members(context, principal, choice, body.group))[0].tenant
    else:
        tenant = tenant_of(context.current(), principal, choice.tenant).name
    filter = jobs.JobFilter(
        states=frozenset(map(JobState, body.state)) if body.state else None,
        project=project_called(context, body.project),
        pool=body.pool,
        user=body.user,
        group=body.group,
        name=body.name,
    )
    cancelled = await several_jobs.cancel_all(context.db, tenant, filter, principal.subject, context.clock())
    return {"jobs": [{"id": id, "state": state} for id, state in cancelled.jobs], "more": cancelled.more}


async def _members(
    context: RequestContext, principal: Principal, choice: Choice, id: str
) -> list[several_jobs.Member]:
    """The jobs of an array, if the caller may see it. Raises ApiProblem."""
    members = await several_jobs.members(context.db, id)
    if not members:
        raise ApiProblem("not-found", f"there is no job and no array {id[:100]}")
    tenant = members[0].tenant
    if not principal.acts_for(tenant) or choice.tenant not in (None, tenant):
        raise ApiProblem("not-found", f"there is no job and no array {id[:100]}")
    return members


@router.post(
    "/gpu-jobs/{id}/rerun", operation_id="rerun_job", status_code=201, response_model=answers.SubmittedBody
)
async def rerun_job(
    context: Present,
    principal: Writer,
    choice: Chosen,
    id: JobId,
    body: RerunRequest,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> dict[str, Any]:
    """Submit a job, or the jobs of an array with their indexes, again. Dependencies are not copied; `changes`
    can set them."""
    job, indexes = await _rerun(context, principal, choice, id, body.unsuccessful)
    check_commands(context, principal, job.is_http)
    request = _changed(job, body.changes, choice)
    if indexes and request.array:
        raise ApiProblem("invalid-request", "array: the job is already part of an array; leave the field out")
    foreign = body.changes.keys() - RESOURCES
    if job.request.get("env") and foreign and choice.user != job.user and not principal.may("users:any"):
        raise ApiProblem(
            "user-not-granted",
            f"the job has variables of {job.user}, so only {job.user} may change {sorted(foreign)[0]}; "
            "submit a job of your own",
        )
    own = Choice(job.tenant, choice.project, choice.user)
    of = f"\nrerun {id.lower()} {body.unsuccessful}"
    return await submitted(context, principal, own, request, response, idempotency_key, (of, indexes))


async def _rerun(
    context: RequestContext, principal: Principal, choice: Choice, id: str, unsuccessful: bool
) -> tuple[Job, list[int]]:
    """A job that is to run again, and of an array the indexes of those that are. Raises ApiProblem."""
    if (members := await several_jobs.members(context.db, id) if is_id(id) else []) == []:
        job = await visible(context, principal, choice.tenant, id)
        return job, [] if job.group_index is None else [job.group_index]
    members = await _members(context, principal, choice, id)
    chosen = [
        member
        for member in members
        if not unsuccessful or (member.state.final and member.state is not JobState.SUCCEEDED)
    ]
    if not chosen:
        raise ApiProblem("invalid-request", f"no job of array {id} has ended without success")
    job = await visible(context, principal, choice.tenant, chosen[0].id)
    return job, [member.index for member in chosen]


def _changed(job: Job, changes: dict[str, Any], choice: Choice) -> JobRequest:
    """The request that made the job, with changes. Raises RequestValidationError."""
    fields = {name: value for name, value in job.request.items() if name in JobRequest.model_fields}
    fields |= {
        "depends_on": [],
        "depends_on_ended": [],
        "project_id": None if choice.project else job.project,
    }
    env = changes.get("env")
    fields |= changes | ({"env": {**fields.get("env", {}), **env}} if isinstance(env, dict) else {})
    try:
        return JobRequest.model_validate({name: value for name, value in fields.items() if value is not None})
    except ValidationError as error:
        rows = [{**row, "loc": ("body", *row["loc"])} for row in error.errors(include_url=False)]
        raise RequestValidationError(rows) from None
