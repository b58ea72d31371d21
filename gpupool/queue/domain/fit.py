"""Whether the Plan takes a request, and as what: priority, offers, isolation.

Asked when a job is submitted, and again for each job that waits whenever the Plan is another one, so that the
two can't differ. Money, deadlines and what others hold are not looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.tenants import Tenant
from gpupool.environment.web_addresses import WrongAddress, allowed, parsed
from gpupool.queue.checkpoints import lies_in
from gpupool.queue.domain.offers import AUTO, MIG, GpuRequest, UnservableRequest, mib, offers
from gpupool.queue.domain.supply import Supply
from gpupool.queue.records import MICRO, Job, Level, NewJob, Offer, Waiting, WaitReason
from gpupool.queue.text_secrets import without_secrets

FIELDS = (
    "gpu_pool_requested",
    "isolation_level",
    "gpu_type",
    "gpu_count",
    "shm_size",
    "scratch_size",
    "preemptible",
    "target_url",
    "callback_url",
    "checkpoint_s3_path",
    "env_from_secrets",
    "image_pull_secrets",
    "volumes",
)
"""What of a request is looked at."""


@dataclass(frozen=True, slots=True)
class Rank:
    """The priority of a job, as granted."""

    name: str
    """critical, high, medium or low."""
    level: Level
    preempts: bool
    preemptible: bool


@dataclass(frozen=True, slots=True)
class Fit:
    """How the Plan takes a request."""

    level: Level
    preempts: bool
    preemptible: bool
    isolation: str
    """shared or exclusive."""
    offers: tuple[Offer, ...]
    """Best first; at least one."""


def fit(plan: Plan, supply: Supply, tenant: Tenant, request: Mapping[str, Any], rank: Rank) -> Fit:
    """How a request with that priority is taken. Raises UnservableRequest."""
    _check_addresses(plan, request)
    _check_granted(tenant, request)
    preemptible = rank.preemptible and request.get("preemptible") is not False
    wish = GpuRequest(
        request.get("gpu_pool_requested") or AUTO,
        request.get("isolation_level"),
        request.get("gpu_type"),
        request.get("gpu_count") or 1,
        mib(request.get("shm_size")),
        mib(request.get("scratch_size")),
        preemptible,
    )
    ways = offers(plan, supply, tenant, wish)
    # Whole GPUs and MIG instances are never shared.
    whole = ways[0].key == MIG or ways[0].gpu_micro >= MICRO
    return Fit(
        level=rank.level,
        preempts=rank.preempts,
        preemptible=preemptible,
        isolation="exclusive" if whole or wish.isolation == "exclusive" else "shared",
        offers=ways,
    )


def fit_again(
    plan: Plan,
    supply: Supply,
    tenants: Mapping[str, Tenant],
    job: NewJob,
) -> Fit:
    """How this Plan takes a job that another one accepted. Its priority follows maxPriority down, and up
    again to what was granted; it preempts only where its caller may. Raises UnservableRequest."""
    tenant = tenants.get(job.tenant)
    if tenant is None or tenant.name != job.tenant:
        raise UnservableRequest(
            "tenant-not-granted", f"the environment file has no tenant {job.tenant}", "tenants"
        )
    if job.project is not None and all(job.project != project.name for project in tenant.projects):
        raise UnservableRequest(
            "project-not-granted",
            f"tenant {tenant.name} has no project {job.project}",
            f"tenants[{tenant.name}].projects",
        )
    # Who submits a container may preempt; of HTTP jobs it is known only where one did.
    rank = rank_of(plan, tenant, job.priority, job.preempts or not job.is_http, at_most=True)
    return fit(plan, supply, tenant, job.request, rank)


def stale_reason(plan: Plan, supply: Supply, tenants: Mapping[str, Tenant], job: Job) -> str | None:
    """Why an attempt that has not begun can't run as it was dispatched by another Plan; None where it can."""
    named = replace(job, request={**job.request, "gpu_pool_requested": job.pool})
    try:
        taken = fit_again(plan, supply, tenants, named)
    except UnservableRequest as refused:
        return refused.detail
    units = sum(units for _, units in job.placement)
    for offer in taken.offers:
        if (offer.resource, offer.units, offer.gpu_micro) == (job.resource, units, job.gpu_micro):
            return None
    return f"{job.pool} no longer has {units} {job.resource} of that size"


def unschedulable(refused: UnservableRequest) -> Waiting:
    """Why a job waits that the Plan in force would refuse."""
    return Waiting(
        WaitReason.UNSCHEDULABLE,
        f"{refused.detail}; change {refused.field} in the environment file, or cancel it",
    )


def rank_of(
    plan: Plan, tenant: Tenant, asked: str | None, preempts: bool = True, at_most: bool = False
) -> Rank:
    """The priority that `asked` comes to: itself, or the next lower level that the file has. Raises
    UnservableRequest above the tenant's maxPriority; a job that asks for none, or is to have `at_most` that,
    gets the highest. `preempts`: whether the caller may end others' jobs by it."""
    wanted = Level[(asked or "medium").upper()]
    if not plan.priorities:
        return Rank(wanted.name.lower(), wanted, preempts=False, preemptible=False)
    ceiling = next((p for p in plan.priorities if p.name == tenant.max_priority), plan.priorities[-1])
    highest = Level[ceiling.level.upper()]
    levels = {
        Level[priority.level.upper()]: priority
        for priority in reversed(plan.priorities)
        if priority.level != ceiling.level or priority.value <= ceiling.value
    }
    if asked is None or at_most:
        wanted = min(wanted, highest)
    level = max((known for known in levels if known <= wanted), default=min(levels))
    if level > highest:
        raise UnservableRequest(
            "priority-not-granted",
            f"{wanted.name.lower()} is above {highest.name.lower()}, the highest of {tenant.name}",
            f"tenants[{tenant.name}].maxPriority",
        )
    priority = levels[level]
    return Rank(level.name.lower(), level, preempts and priority.preempts, priority.preemptible)


def _check_addresses(plan: Plan, request: Mapping[str, Any]) -> None:
    for name in ("target_url", "callback_url"):
        address = request.get(name)
        if not address:
            continue
        try:
            url = parsed(address)
        except WrongAddress as error:
            raise UnservableRequest("target-not-allowed", f"{name}: {error}", "queue.targets") from error
        if not allowed(url, plan.queue.targets):
            listed = ", ".join(plan.queue.targets) or "none"
            raise UnservableRequest(
                "target-not-allowed",
                f"{name} {without_secrets(address)[:200]!r} has no allowed origin; allowed: {listed}",
                "queue.targets",
            )


def _check_granted(tenant: Tenant, request: Mapping[str, Any]) -> None:
    """What the tenant's `jobs` of the environment file leave open to its jobs. Raises UnservableRequest."""
    place, folder = request.get("checkpoint_s3_path"), tenant.checkpoints
    if place and folder and not lies_in(place, folder):
        raise UnservableRequest(
            "not-for-jobs",
            f"checkpoint_s3_path {place[:200]!r} is not in {folder}, the checkpoint folder of {tenant.name}",
            f"tenants[{tenant.name}].jobs.checkpoints",
        )
    volumes = [volume["claim"] for volume in request.get("volumes") or ()]
    for name, names, granted, field in (
        ("env_from_secrets", request.get("env_from_secrets") or (), tenant.job_secrets, "secrets"),
        ("image_pull_secrets", request.get("image_pull_secrets") or (), tenant.job_secrets, "secrets"),
        ("volumes", volumes, tenant.job_claims, "claims"),
    ):
        wrong = [text for text in names if granted is not None and text not in granted]
        if wrong:
            listed = ", ".join(granted or ()) or "none"
            raise UnservableRequest(
                "not-for-jobs",
                f"{name}: jobs of {tenant.name} may not use {wrong[0]!r}; allowed: {listed}",
                f"tenants[{tenant.name}].jobs.{field}",
            )
