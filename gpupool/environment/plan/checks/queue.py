"""The queue: durations that mean something, and ids that mean one tenant or project each."""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.environment.plan.checks.context import CheckContext, PlanProblem
from gpupool.environment.spec.field_types import duration_seconds
from gpupool.environment.spec.yaml_source import Loc

_DERIVED = {
    "image": "it follows from queue.chart.image",
    "environment": "it follows from metadata.name",
    "files": "they are this file and the project's additions",
    "database": "it follows from queue.database",
    "webhook": "it follows from queue.alerts.webhookSecretRef",
    "smtpPassword": "it follows from queue.alerts.smtp.secretRef",
    "nats": "it follows from queue.nats.secretRef",
    "metricsKey": "it follows from queue.metricsKeySecretRef",
}
"""Values of the chart that follow from the file."""


def durations(context: CheckContext) -> Iterator[PlanProblem]:
    """None is zero, and what jobs get that name no timeout is within the policies' limit."""
    queue, limits = context.environment.queue, context.environment.policies.limits
    given: list[tuple[Loc, str]] = [
        (("queue", "aging"), queue.aging),
        (("queue", "defaultTimeout"), queue.default_timeout),
        (("queue", "logs", "keepFor"), queue.logs.keep_for),
    ]
    if queue.idle:
        given.append((("queue", "idle", "for"), queue.idle.for_))
    for loc, duration in given:
        if not duration_seconds(duration):
            yield PlanProblem(loc, f"{duration} is zero", "write a duration of at least 1s")
    longest = ("policies", "limits", "jobDeadline")
    written = "default_timeout" in queue.model_fields_set
    if written and duration_seconds(queue.default_timeout) > duration_seconds(limits.job_deadline):
        message = f"{queue.default_timeout} is longer than policies.limits.jobDeadline, {limits.job_deadline}"
        loc = ("queue", "defaultTimeout")
        yield PlanProblem(loc, message, f"use at most {limits.job_deadline}", judged_by=(loc, longest))


def ids(context: CheckContext) -> Iterator[PlanProblem]:
    """A UUID stands for one tenant, or for one project of one tenant."""
    of_tenants: dict[str, str] = {}
    of_projects: dict[str, str] = {}
    for index, tenant in enumerate(context.environment.tenants):
        loc: Loc = ("tenants", index, "id")
        if tenant.id is not None and (message := _taken(of_tenants, tenant.id, f"tenant {tenant.name!r}")):
            yield PlanProblem(loc, message, "give each its own")
        for position, project in enumerate(tenant.projects):
            if isinstance(project, str) or project.id is None:
                continue
            loc = ("tenants", index, "projects", position, "id")
            whose = f"project {project.name!r} of tenant {tenant.name!r}"
            if message := _taken(of_projects, project.id, whose):
                yield PlanProblem(loc, message, "give each its own")


def engine(context: CheckContext) -> Iterator[PlanProblem]:
    """The one that there is."""
    if context.environment.queue.engine != "builtin":
        message = "gpupool does not support Kueue yet; its own queue is the only engine"
        remediation = "remove it; if Kueue schedules jobs, use queue.enabled: false"
        yield PlanProblem(("queue", "engine"), message, remediation)


def chart(context: CheckContext) -> Iterator[PlanProblem]:
    """Its processes have one database and a queue to serve."""
    queue = context.environment.queue
    if queue.chart is None:
        return
    loc: Loc = ("queue", "chart")
    for key in sorted(queue.chart.values.keys() & _DERIVED.keys()):
        yield PlanProblem((*loc, "values", key), f"gpupool derives it: {_DERIVED[key]}", "remove it")
    if queue.database is None:
        message = "several processes need a shared PostgreSQL, but queue.database is missing"
        remediation = "add queue.database: {secretRef: {name: NAME, key: KEY}}, a Secret in gpupool-system"
        yield PlanProblem(loc, message, remediation, judged_by=(loc, ("queue", "database")))


def _taken(owners: dict[str, str], uuid: str, whose: str) -> str:
    """The problem if another has `uuid` already; otherwise it is recorded as taken."""
    owner = owners.get(uuid)
    owners.setdefault(uuid, whose)
    return f"id {uuid} is already used by {owner}" if owner else ""
