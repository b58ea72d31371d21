"""PriorityClasses: all that the Plan has (`gpupool.environment.plan.priority_classes`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpupool.environment.plan.model import LEVEL_LABEL, Plan
from gpupool.environment.plan.priority_classes import PlannedClass, priority_classes
from gpupool.generators.manifest import Manifest
from gpupool.generators.metadata import manifest_of


def generate(plan: Plan) -> Iterator[Manifest]:
    for planned in priority_classes(plan):
        yield _class(plan, planned)


def _class(plan: Plan, planned: PlannedClass) -> Manifest:
    description: dict[str, Any] = {"description": planned.description} if planned.description else {}
    levelled = planned.priority is not None and not planned.queue_only
    return manifest_of(
        plan,
        "PriorityClass",
        planned.name,
        pool=plan.pool(planned.pool) if planned.pool else None,
        labels={LEVEL_LABEL: planned.priority.level} if levelled and planned.priority else None,
        value=planned.value,
        globalDefault=False,
        preemptionPolicy="PreemptLowerPriority" if planned.preempts else "Never",
        **description,
    )
