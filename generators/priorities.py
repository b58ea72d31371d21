"""PriorityClasses: as the environment lists them, a second one for the queue's pods where a priority
preempts, and the one with which warm nodes' pods are preempted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpupool.generators.manifest import Manifest
from gpupool.generators.metadata import manifest_of
from gpupool.plan.model import LEVEL_LABEL, Plan

WARM_PRIORITY = "gpupool-warm"
_WARM_VALUE = -10
"""Low enough for pods without a priority; lower still where the environment goes that low itself."""


def generate(plan: Plan) -> Iterator[Manifest]:
    for priority in plan.priorities:
        policy = "PreemptLowerPriority" if priority.preempts else "Never"
        yield _class(plan, priority.name, priority.value, policy, priority.description, priority.level)
        if priority.queue_class != priority.name:
            described = f"{priority.name} for pods of the job queue, which preempts by itself"
            yield _class(plan, priority.queue_class, priority.value, "Never", described)
    if any(pool.warm for pool in plan.pools):
        lowest = min((priority.value for priority in plan.priorities), default=0)
        value = min(_WARM_VALUE, lowest - 1)
        yield _class(plan, WARM_PRIORITY, value, "Never", "Keeps warm nodes; anything may push it out")


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
