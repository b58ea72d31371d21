"""PriorityClasses as a set: one value each, one default, and what the environment lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpupool.environment.plan.model import POOL_LABEL
from gpupool.environment.plan.priority_classes import highest_value, priority_classes
from gpupool.environment.spec.environment import QUEUED
from gpupool.policy.rules.bundle import BundleObject, ObjectSet
from gpupool.policy.rules.fields import at, count, text
from gpupool.policy.rules.quotas import counted_classes
from gpupool.policy.rules.rule import RuleViolation


def values(bundle: ObjectSet) -> Iterator[RuleViolation]:
    """One value each; the classes of a priority that preempts, and those of its pools, are one priority."""
    first: dict[int, BundleObject] = {}
    for item in bundle.of_kind("PriorityClass"):
        if POOL_LABEL in item.labels:
            continue
        value = item.body.get("value")
        if isinstance(value, int) and not isinstance(value, bool):
            other = first.setdefault(value, item)
            shorter, longer = sorted((other.name, item.name), key=len)
            if longer not in (shorter, f"{shorter}{QUEUED}"):
                message = f"has the same value {value} as {other.name}, so neither has precedence"
                yield RuleViolation(message, item, "value", {"value": value, "other": other.name})


def default(bundle: ObjectSet) -> Iterator[RuleViolation]:
    defaults = [item for item in bundle.of_kind("PriorityClass") if at(item.body, "globalDefault") is True]
    for item in defaults[1:]:
        message = f"is the default for all pods, as is {defaults[0].name}"
        yield RuleViolation(message, item, "globalDefault", {"other": defaults[0].name})


def planned(bundle: ObjectSet) -> Iterator[RuleViolation]:
    """Each priority of the environment has its classes, with its value and their right to preempt."""
    if bundle.plan is None:
        return
    classes = {item.name: item for item in bundle.of_kind("PriorityClass")}
    for planned_class in priority_classes(bundle.plan):
        name = planned_class.name
        item = classes.get(name)
        if item is None:
            yield RuleViolation(f"PriorityClass {name} is missing", path=f"priorities {name}")
            continue
        value = item.body.get("value")
        if value != planned_class.value:
            message = f"value is {value}, the environment says {planned_class.value}"
            yield RuleViolation(message, item, "value", {"value": value, "planned": planned_class.value})
        # Absent means that it preempts (Kubernetes 1.36, PriorityClass).
        preempts = (text(item.body, "preemptionPolicy") or "PreemptLowerPriority") != "Never"
        if preempts != planned_class.preempts:
            word = "may" if preempts else "may not"
            message = f"its pods {word} push others out, which the environment says otherwise"
            yield RuleViolation(message, item, "preemptionPolicy", {"planned": planned_class.preempts})


def bounded(bundle: ObjectSet) -> Iterator[RuleViolation]:
    """No class above a tenant's highest is open to its pods."""
    if bundle.plan is None:
        return
    classes = [(item.name, item.body.get("value")) for item in bundle.of_kind("PriorityClass")]
    quotas = bundle.by_namespace("ResourceQuota")
    for tenant in bundle.plan.tenants:
        most = highest_value(bundle.plan, tenant)
        if most is None:
            continue
        closed = _closed(quotas.get(tenant.namespace, ()))
        above = [name for name, value in classes if isinstance(value, int) and value > most]
        opened = sorted(set(above) - closed)
        if opened:
            message = (
                f"tenant {tenant.name!r} may use priorities up to {tenant.max_priority}, but no quota of "
                f"namespace {tenant.namespace!r} forbids {', '.join(opened)}"
            )
            namespace = bundle.find("Namespace", tenant.namespace)
            yield RuleViolation(message, namespace, values={"above": opened, "most": most})


def _closed(quotas: Iterable[BundleObject]) -> set[str]:
    """PriorityClasses of which one of `quotas` allows no pod."""
    return {
        name
        for quota in quotas
        if count(at(quota.body, "spec", "hard", "pods")) == 0
        for name in counted_classes(quota)
    }
