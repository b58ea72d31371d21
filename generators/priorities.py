"""PriorityClasses, as the environment lists them, and the one that lets warm nodes' pods give way."""

from __future__ import annotations

from collections.abc import Iterator

from generators.manifest import Manifest
from generators.metadata import metadata
from gpupool.plan import Plan

WARM_PRIORITY = "gpupool-warm"


def generate(plan: Plan) -> Iterator[Manifest]:
    for priority in plan.priorities:
        policy = "PreemptLowerPriority" if priority.preempts else "Never"
        yield _class(
            plan, priority.name, priority.value, policy, priority.description or f"{priority.level} GPU jobs"
        )
    if any(pool.warm for pool in plan.pools):
        yield _class(plan, WARM_PRIORITY, -10, "Never", "Keeps warm nodes; anything may push it out")


def _class(plan: Plan, name: str, value: int, preemption: str, description: str) -> Manifest:
    return Manifest(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": metadata(plan, name),
            "value": value,
            "globalDefault": False,
            "preemptionPolicy": preemption,
            "description": description,
        }
    )
