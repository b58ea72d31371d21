"""What a reviewer must not miss about priorities: which priority is higher, which preempts which, and what
happens to pods that name a class. Registered in `gpupool.review.report.risks`.

`value` and `preemptionPolicy` of a PriorityClass are immutable (Kubernetes, scheduling.k8s.io/v1), so every
engine deletes and recreates the class; a pod keeps the number that it was admitted with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpupool.environment.plan.model import Plan
from gpupool.environment.spec.environment import Priority
from gpupool.review.report.model import Risk, risk


def priorities(before: Plan, after: Plan) -> Iterator[Risk]:
    """What changes between the classes of both states."""
    old, new = _classes(before), _classes(after)
    yield from _gone(old, new)
    for name, now in new.items():
        if name in old:
            yield from _remade(old[name], now)
    yield from _order(old, new)


def _classes(plan: Plan) -> Mapping[str, Priority]:
    return {priority.name: priority for priority in plan.priorities}


def _gone(old: Mapping[str, Priority], new: Mapping[str, Priority]) -> Iterator[Risk]:
    for name, was in old.items():
        if name in new:
            continue
        twins = [
            now.name
            for now in new.values()
            if now.name not in old and (now.value, now.level) == (was.value, was.level)
        ]
        what = f"is renamed to {twins[0]}" if len(twins) == 1 else "is removed"
        yield risk(
            "priority",
            f"priority {name} {what}: running pods keep their priority, and new pods that name {name} "
            "are rejected, including those of existing Jobs and Deployments",
        )


def _remade(was: Priority, now: Priority) -> Iterator[Risk]:
    changes = []
    if was.value != now.value:
        changes.append(f"value goes from {was.value} to {now.value}")
    if was.preempts != now.preempts:
        changes.append(
            "preempts is enabled, so its pods preempt those of lower priorities"
            if now.preempts
            else "preempts is disabled, so its pods wait instead of preempting others"
        )
    if changes:
        yield risk(
            "priority",
            f"priority {now.name}: {' and '.join(changes)}. The class is deleted and recreated; running pods "
            "keep their priority, and a pod that names it meanwhile is rejected",
        )


def _order(old: Mapping[str, Priority], new: Mapping[str, Priority]) -> Iterator[Risk]:
    """Pairs of classes in both states whose order has changed."""
    both = [name for name in new if name in old]
    for index, one in enumerate(both):
        for other in both[index + 1 :]:
            # Each has a value of its own, and `new` is in their order.
            if old[one].value < old[other].value:
                yield risk("priority", f"priority {one} now precedes {other}; it was the reverse")
