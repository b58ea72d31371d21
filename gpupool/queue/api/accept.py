"""A checked request -> jobs ready to be stored, as the Plan and the caller's credential allow.

The `X-` headers choose among what the credential grants. This module must not do I/O, and does not decide
where a job runs: `gpupool.queue.domain.offers` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from gpupool.plan.model import Plan
from gpupool.plan.tenants import Tenant
from gpupool.queue.api.problems import Problem
from gpupool.queue.api.requests import JobRequest
from gpupool.queue.checkpoints import lies_in
from gpupool.queue.domain.offers import MIG, Wish, offers
from gpupool.queue.domain.supply import hold_for
from gpupool.queue.plan_source import Current
from gpupool.queue.records import MICRO, Given, Job, Level, Offer, Principal, State, new_id
from gpupool.web_addresses import WrongAddress, allowed, parsed

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
    """What the headers name, granted whatever the operation does with it. Raises Problem."""
    if tenant is not None:
        tenants = [tenant_of(now, principal, tenant)]
    else:
        tenants = [one for one in now.plan.tenants if principal.acts_for(one.name)]
    if project is not None:
        projects = {name for one in tenants for own in one.projects for name in (own.name, own.id)}
        if projects.isdisjoint({project, project.lower()}):
            raise Problem("project-not-granted", f"the credential has no project {project[:100]!r}")
    return Choice(tenants[0].name if tenant is not None else None, project, _user(principal, user))


def scope_of(principal: Principal, tenant: str | None) -> frozenset[str] | None:
    """Tenants whose jobs a caller who chose that tenant, or none, may see; None for all."""
    if tenant is not None:
        return frozenset({tenant})
    return None if principal.acts_for("*") else principal.tenants


def tenant_of(now: Current, principal: Principal, named: str | None) -> Tenant:
    """The tenant that the request is for, by name or id. Raises Problem."""
    if named is None:
        mine = [tenant for tenant in now.plan.tenants if principal.acts_for(tenant.name)]
        if len(mine) == 1:
            return mine[0]
        raise Problem(
            "tenant-required", f"the credential acts for {len(mine)} tenants; name one in X-Tenant-Id"
        )
    tenant = now.tenants.get(named) or now.tenants.get(named.lower())
    if tenant and (named == tenant.name or named.lower() == tenant.id) and principal.acts_for(tenant.name):
        return tenant
    raise Problem("tenant-not-granted", f"the credential does not act for tenant {named[:100]!r}")


def project_of(tenant: Tenant, choice: Choice, body: JobRequest) -> str | None:
    """The project of a new job, named by header or body. Raises Problem."""
    named = [_project_name(tenant, text) for text in (choice.project, body.project_id) if text is not None]
    if len(set(named)) > 1:
        raise Problem("invalid-request", "X-Project-Id and project_id name different projects")
    return named[0] if named else None


def _project_name(tenant: Tenant, named: str) -> str:
    for project in tenant.projects:
        if named == project.name or named.lower() == project.id:
            return project.name
    raise Problem("project-not-granted", f"tenant {tenant.name} has no project {named[:100]!r}")


def _user(principal: Principal, named: str | None) -> str:
    if named is None or named == principal.subject:
        return principal.subject
    if not principal.may("users:any"):
        raise Problem(
            "user-not-granted", f"the credential stands for {principal.subject}, not {named[:100]!r}"
        )
    if not 1 <= len(named) <= 200 or not named.isprintable():
        raise Problem("invalid-request", "X-User-Id is empty, too long or has control characters")
    return named


@dataclass(frozen=True, slots=True)
class Rank:
    """The priority of a job, as granted."""

    name: str
    """critical, high, medium or low."""
    level: Level
    preempts: bool
    preemptible: bool


def rank_of(plan: Plan, tenant: Tenant, asked: str | None, preempts: bool = True) -> Rank:
    """The priority that `asked` comes to: itself, or the next lower level that the file has. Raises Problem
    above the tenant's maxPriority; a job that asks for none gets at most that. `preempts`: whether the caller
    may end others' jobs by it."""
    if not plan.priorities:
        level = Level[(asked or "medium").upper()]
        return Rank(level.name.lower(), level, preempts=False, preemptible=False)
    ceiling = next((p for p in plan.priorities if p.name == tenant.max_priority), plan.priorities[-1])
    highest = Level[ceiling.level.upper()]
    levels = {
        Level[priority.level.upper()]: priority
        for priority in reversed(plan.priorities)
        if priority.level != ceiling.level or priority.value <= ceiling.value
    }
    wanted = Level[(asked or "medium").upper()]
    if asked is None:
        wanted = min(wanted, highest)
    level = max((known for known in levels if known <= wanted), default=min(levels))
    if level > highest:
        raise Problem(
            "priority-not-granted",
            f"{wanted.name.lower()} is above {highest.name.lower()}, the highest of {tenant.name}",
        )
    found = levels[level]
    return Rank(level.name.lower(), level, preempts and found.preempts, found.preemptible)


def _check_addresses(plan: Plan, body: JobRequest) -> None:
    for field in ("target_url", "callback_url"):
        address = getattr(body, field)
        if not address:
            continue
        try:
            url = parsed(address)
        except WrongAddress as error:
            raise Problem("target-not-allowed", f"{field}: {error}") from error
        if not allowed(url, plan.queue.targets):
            listed = ", ".join(plan.queue.targets) or "none"
            raise Problem(
                "target-not-allowed", f"{field} {address[:200]!r} has no allowed origin; allowed: {listed}"
            )


def _check_granted(tenant: Tenant, body: JobRequest) -> None:
    """What the tenant's `jobs` of the environment file leave open to its jobs. Raises Problem."""
    place, folder = body.checkpoint_s3_path, tenant.checkpoints
    if place and folder and not lies_in(place, folder):
        raise Problem(
            "not-for-jobs",
            f"checkpoint_s3_path {place[:200]!r} is not in {folder}, where jobs of {tenant.name} keep them",
        )
    volumes = [volume.claim for volume in body.volumes]
    for field, names, allowed_names in (
        ("env_from_secrets", body.env_from_secrets, tenant.job_secrets),
        ("image_pull_secrets", body.image_pull_secrets, tenant.job_secrets),
        ("volumes", volumes, tenant.job_claims),
    ):
        wrong = [name for name in names if allowed_names is not None and name not in allowed_names]
        if wrong:
            listed = ", ".join(allowed_names or ()) or "none"
            raise Problem(
                "not-for-jobs", f"{field}: jobs of {tenant.name} may not use {wrong[0]!r}; allowed: {listed}"
            )


def _isolation(body: JobRequest, offer: Offer) -> str:
    """shared or exclusive: whole GPUs and MIG instances are never shared."""
    whole = offer.key == MIG or offer.gpu_micro >= MICRO
    return "exclusive" if whole or body.isolation_level == "exclusive" else "shared"


def estimate_micro(rate_micro: int, timeout_s: int, limit_micro: int | None) -> int:
    """What a job costs at most: its rate for as long as it may run, within its own limit."""
    cost = hold_for(rate_micro, timeout_s)
    return cost if limit_micro is None else min(cost, limit_micro)


def _limit_micro(body: JobRequest, found: tuple[Offer, ...]) -> int | None:
    """The job's own budget. Raises Problem where it pays for no second: the job would wait for ever."""
    if body.budget_limit_usd is None:
        return None
    limit = round(body.budget_limit_usd * MICRO)
    least = min(offer.rate(capacity_type) for offer in found for capacity_type in ("on-demand", "spot"))
    if limit * 3600 < least:
        raise Problem(
            "invalid-request",
            f"budget_limit_usd {body.budget_limit_usd} pays for less than a second: an hour costs "
            f"{least / MICRO} at least",
        )
    return limit


def _check_array(tenant: Tenant, body: JobRequest) -> None:
    """Raises Problem for an array that could never be stored, and for one that would fill the memory."""
    jobs = body.array or 1
    if tenant.queued is not None and jobs > tenant.queued:
        raise Problem(
            "invalid-request",
            f"array {jobs} is more than the {tenant.queued} queued jobs that {tenant.name} may have; submit "
            "it in parts, or raise limits.queued in the environment file",
        )
    size = len(body.model_dump_json().encode()) * jobs if jobs > 1 else 0
    if size > ARRAY_BYTES:
        raise Problem(
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
) -> list[Job]:
    """The jobs that the request makes, as they are once they are stored: one, or `array` of them. `preempts`:
    whether the caller may end others' jobs. Raises Problem, Refused."""
    plan = now.plan
    rank = rank_of(plan, tenant, body.priority, preempts)
    _check_addresses(plan, body)
    _check_granted(tenant, body)
    timeout = body.timeout_seconds or plan.queue.default_timeout_s
    if timeout > plan.queue.longest_timeout_s:
        raise Problem("invalid-request", f"timeout_seconds {timeout} is above {plan.queue.longest_timeout_s}")
    wish = Wish(body.gpu_pool_requested, body.isolation_level, body.gpu_type, body.gpu_count)
    found = offers(plan, now.supply, tenant, wish)
    limit = _limit_micro(body, found)
    request = Given(body.model_dump(mode="json", exclude={"array"}))
    _check_array(tenant, body)
    group = new_id(at.timestamp()) if body.array else None
    ids = sorted(new_id(at.timestamp()) for _ in range(body.array or 1))
    return [
        Job(
            id=id,
            tenant=tenant.name,
            project=project,
            user=user,
            name=body.job_name,
            priority=rank.name,
            level=rank.level,
            isolation=_isolation(body, found[0]),
            gpu_count=body.gpu_count,
            preemptible=rank.preemptible and body.preemptible is not False,
            preempts=rank.preempts,
            retries=body.retries or 0,
            timeout_s=timeout,
            budget_limit_micro=limit,
            offers=found,
            request=request,
            plan_hash=now.hash,
            group_id=group,
            group_index=index if group else None,
            depends_on=body.depends_on,
            deadline_at=at + timedelta(seconds=body.deadline_seconds) if body.deadline_seconds else None,
            state=State.QUEUED,
            version=1,
            attempt=0,
            failures=0,
            disruptions=0,
            enqueued_at=at,
        )
        for index, id in enumerate(ids)
    ]
