"""A checked request -> jobs ready to be stored, as the Plan and the caller's credential allow.

The `X-` headers choose among what the credential grants. This module must not do I/O, and does not decide
where a job runs: `gpupool.queue.domain.fit` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpupool.environment.plan.tenants import Tenant
from gpupool.queue.api.problems import ApiProblem
from gpupool.queue.api.requests import JobRequest
from gpupool.queue.domain.current import Current
from gpupool.queue.domain.fit import fit, rank_of
from gpupool.queue.domain.possible import never_paid
from gpupool.queue.domain.state import Queued
from gpupool.queue.domain.supply import Supply, hold_for
from gpupool.queue.records import MICRO, Given, Job, JobState, Principal, new_id

ARRAY_BYTES = 16 * 2**20
"""The requests of all jobs of an array."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What a request's headers choose among what the credential grants."""

    tenant: str | None
    """Its name; None: all of the credential's."""
    project: str | None
    """Name or id, as it was given."""
    user: str


def choice_of(
    now: Current, principal: Principal, tenant: str | None, project: str | None, user: str | None
) -> Choice:
    """What the headers name, granted whatever the operation does with it. Raises ApiProblem."""
    if tenant is not None:
        tenants = [tenant_of(now, principal, tenant)]
    else:
        tenants = [one for one in now.plan.tenants if principal.acts_for(one.name)]
    if project is not None:
        projects = {name for one in tenants for own in one.projects for name in (own.name, own.id)}
        if projects.isdisjoint({project, project.lower()}):
            raise ApiProblem("project-not-granted", f"the credential has no project {project[:100]!r}")
    return Choice(tenants[0].name if tenant is not None else None, project, _user(principal, user))


def scope_of(principal: Principal, tenant: str | None) -> frozenset[str] | None:
    """Tenants whose jobs a caller who chose that tenant, or none, may see; None for all."""
    if tenant is not None:
        return frozenset({tenant})
    return None if principal.acts_for("*") else principal.tenants


def tenant_of(now: Current, principal: Principal, named: str | None) -> Tenant:
    """The tenant that the request is for, by name or id. Raises ApiProblem."""
    if named is None:
        mine = [tenant for tenant in now.plan.tenants if principal.acts_for(tenant.name)]
        if len(mine) == 1:
            return mine[0]
        raise ApiProblem(
            "tenant-required", f"the credential acts for {len(mine)} tenants; name one in X-Tenant-Id"
        )
    tenant = now.tenants.get(named) or now.tenants.get(named.lower())
    if tenant and (named == tenant.name or named.lower() == tenant.id) and principal.acts_for(tenant.name):
        return tenant
    raise ApiProblem("tenant-not-granted", f"the credential does not act for tenant {named[:100]!r}")


def project_of(tenant: Tenant, choice: Choice, body: JobRequest) -> str | None:
    """The project of a new job, named by header or body. Raises ApiProblem."""
    named = [_project_name(tenant, text) for text in (choice.project, body.project_id) if text is not None]
    if len(set(named)) > 1:
        raise ApiProblem("invalid-request", "X-Project-Id and project_id name different projects")
    return named[0] if named else None


def _project_name(tenant: Tenant, named: str) -> str:
    for project in tenant.projects:
        if named == project.name or named.lower() == project.id:
            return project.name
    raise ApiProblem("project-not-granted", f"tenant {tenant.name} has no project {named[:100]!r}")


def _user(principal: Principal, named: str | None) -> str:
    if named is None or named == principal.subject:
        return principal.subject
    if not principal.may("users:any"):
        raise ApiProblem(
            "user-not-granted", f"the credential stands for {principal.subject}, not {named[:100]!r}"
        )
    if not 1 <= len(named) <= 200 or not named.isprintable():
        raise ApiProblem("invalid-request", "X-User-Id is empty, too long or has control characters")
    return named


def estimate_micro(rate_micro: int, timeout_s: int, limit_micro: int | None) -> int:
    """What a job costs at most: its rate for as long as it may run, within its own limit."""
    cost = hold_for(rate_micro, timeout_s)
    return cost if limit_micro is None else min(cost, limit_micro)


def check_affordable(supply: Supply, job: Queued) -> None:
    """Raises ApiProblem for a job that no period's budget pays for on any of its offers, nor its own budget
    for a second: it would wait for ever."""
    nevers = [never_paid(supply, job, offer) for offer in job.offers]
    cheapest = min(filter(None, nevers), key=lambda never: never.needed_micro, default=None)
    if cheapest is not None and all(nevers):
        raise ApiProblem(
            "never-affordable",
            str(cheapest),
            scope=cheapest.scope or "job",
            limit_usd=cheapest.limit_micro / MICRO,
            needed_usd=cheapest.needed_micro / MICRO,
        )


def _check_array(tenant: Tenant, body: JobRequest, jobs: int) -> None:
    """Raises ApiProblem for an array that could never be stored, and for one that would fill the memory."""
    if tenant.queued is not None and jobs > tenant.queued:
        raise ApiProblem(
            "invalid-request",
            f"array {jobs} is more than the {tenant.queued} queued jobs that {tenant.name} may have; submit "
            "it in parts, or raise limits.queued in the environment file",
        )
    size = len(body.model_dump_json().encode()) * jobs if jobs > 1 else 0
    if size > ARRAY_BYTES:
        raise ApiProblem(
            "invalid-request",
            f"each of the {jobs} jobs of the array keeps the whole request, {size / 2**20:.0f} MiB in all, "
            f"and {ARRAY_BYTES // 2**20} are allowed; put data into a volume or a bucket, and name it there",
        )


def accept(
    now: Current,
    tenant: Tenant,
    project: str | None,
    user: str,
    body: JobRequest,
    at: datetime,
    preempts: bool = True,
    indexes: Sequence[int] = (),
) -> list[Job]:
    """The jobs that the request makes, as they are once they are stored: one, or `array` of them, or those
    of an array with these `indexes`. `preempts`: whether the caller may end others' jobs. Raises ApiProblem,
    Refused."""
    plan = now.plan
    rank = rank_of(plan, tenant, body.priority, preempts)
    timeout = body.timeout_seconds or plan.queue.default_timeout_s
    if timeout > plan.queue.longest_timeout_s:
        raise ApiProblem(
            "invalid-request", f"timeout_seconds {timeout} is above {plan.queue.longest_timeout_s}"
        )
    request = Given(body.model_dump(mode="json", exclude={"array"}))
    taken = fit(plan, now.supply, tenant, request, rank)
    limit = None if body.budget_limit_usd is None else round(body.budget_limit_usd * MICRO)
    array = bool(body.array or indexes)
    indexes = indexes or range(body.array or 1)
    _check_array(tenant, body, len(indexes))
    group = new_id(at.timestamp()) if array else None
    ids = sorted(new_id(at.timestamp()) for _ in indexes)
    return [
        Job(
            id=id,
            tenant=tenant.name,
            project=project,
            user=user,
            name=body.job_name,
            priority=rank.name,
            level=rank.level,
            isolation=taken.isolation,
            gpu_count=body.gpu_count,
            preemptible=taken.preemptible,
            preempts=rank.preempts,
            retries=body.retries or 0,
            timeout_s=timeout,
            budget_limit_micro=limit,
            offers=taken.offers,
            request=request,
            plan_hash=now.hash,
            group_id=group,
            group_index=index if group else None,
            depends_on=tuple(body.depends_on),
            depends_on_ended=tuple(body.depends_on_ended),
            deadline_at=at + timedelta(seconds=body.deadline_seconds) if body.deadline_seconds else None,
            state=JobState.QUEUED,
            version=1,
            attempt=0,
            failures=0,
            disruptions=0,
            enqueued_at=at,
        )
        for index, id in zip(indexes, ids, strict=True)
    ]
