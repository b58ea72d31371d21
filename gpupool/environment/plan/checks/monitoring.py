"""Monitoring: what `gpupool assert` needs to run inside of the cluster."""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.environment.plan.checks.context import CheckContext, PlanProblem

_LOC = ("monitoring", "assertion")
_FIELDS = 5
_MACROS = ("@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually")


def components(context: CheckContext) -> Iterator[PlanProblem]:
    """What the local control plane does not have."""
    if context.environment.monitoring.prometheus_operator and context.platform == "local":
        message = "the local control plane has no Prometheus operator"
        yield PlanProblem(("monitoring", "prometheusOperator"), message, "remove it")


def assertion(context: CheckContext) -> Iterator[PlanProblem]:
    """A schedule that a CronJob takes."""
    wanted = context.environment.monitoring.assertion
    if wanted is None:
        return
    if wanted.schedule not in _MACROS and len(wanted.schedule.split()) != _FIELDS:
        message = f"{wanted.schedule!r} is not a schedule of a CronJob"
        yield PlanProblem((*_LOC, "schedule"), message, 'write five fields, e.g. "*/10 * * * *"')
