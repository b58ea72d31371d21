"""PriorityClasses: as the environment lists them, a second one for the queue's pods where a priority
preempts, and those of borrowed jobs and of the pods that keep nodes warm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpupool.generators.manifest import Manifest
from gpupool.generators.metadata import manifest_of
from gpupool.plan.model import LEVEL_LABEL, Plan
from gpupool.plan.pods import BORROWED_CLASS, WARM_CLASS

_WARM_VALUE = -10
"""Low enough for pods without a priority; lower still where the environment goes that low itself."""


def generate(plan: Plan) -> Iterator[Manifest]:
    for priority in plan.priorities:
        policy = "PreemptLowerPriority" if priority.preempts else "Never"
        yield _class(plan, priority.name, priority.value, policy, priority.description, priority.level)
        if priority.queue_class != priority.name:
            described = f"{priority.name} for pods of the job queue, which preempts by itself"
            yield _class(plan, priority.queue_class, priority.value, "Never", described)
    lowest = min((priority.value for priority in plan.priorities), default=0)
    if plan.borrows:
        lowest = min(0, lowest) - 1  # below pods without a priority, which take back what is granted
        described = "Jobs of the queue beyond their tenant's grant; pods within a grant may push them out"
        yield _class(plan, BORROWED_CLASS, lowest, "Never", described)
    if any(pool.warm for pool in plan.pools):
        value = min(_WARM_VALUE, lowest - 1)
        yield _class(plan, WARM_CLASS, value, "Never", "Keeps warm nodes; anything may push it out")


def _class(
    plan: Plan, name: str, value: int, preemption: str, description: str, level: str | None = None
) -> Manifest:
    described: dict[str, Any] = {"description": description} if description else {}
    return manifest_of(
        plan,
        "PriorityClass",
        name,
        labels={LEVEL_LABEL: level} if level else None,
        value=value,
        globalDefault=False,
        preemptionPolicy=preemption,
        **described,
    )
