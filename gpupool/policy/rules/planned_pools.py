"""Every pool of the Plan has its nodes in the manifests, in that number and with those labels and taints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpupool.environment.plan.model import POOL_LABEL, Capacity, Plan, Pool
from gpupool.policy.rules.bundle import BundleObject, ObjectSet
from gpupool.policy.rules.fields import at, count, items, labels, mapping, text
from gpupool.policy.rules.rule import RuleViolation

_CAPACITY_TYPE = "karpenter.sh/capacity-type"


def present(bundle: ObjectSet) -> Iterator[RuleViolation]:
    if bundle.plan is None:
        return
    node_pools = {item.name: item for item in bundle.of_kind("NodePool")}
    nodes = {item.name: item for item in bundle.of_kind("Node")}
    for pool in bundle.plan.pools:
        for capacity in pool.capacities:
            item = node_pools.get(capacity.name)
            if item is None:
                kinds = " or ".join(capacity.types)
                message = f"pool {pool.name!r} has no NodePool {capacity.name!r}, so no {kinds} node starts"
                yield RuleViolation(message, path=f"pool {pool.name}")
            else:
                yield from _node_pool(pool, capacity, item)
        for name in pool.node_names:
            if name not in nodes:
                message = f"node {name!r} of pool {pool.name!r} gets neither its labels nor its taints"
                yield RuleViolation(message, path=f"pool {pool.name}")
            else:
                node = nodes[name]
                yield from _marks(pool, node, "", node.labels, items(node.body, "spec", "taints"))
    yield from _unplanned(bundle.plan, bundle)


def _node_pool(pool: Pool, capacity: Capacity, item: BundleObject) -> Iterator[RuleViolation]:
    limits = mapping(item.body, "spec", "limits")
    for name, number in pool.limits(capacity).items():
        if count(limits.get(name)) != number:
            message = f"limit of {name} is {limits.get(name, 'missing')}, planned {number}"
            yield RuleViolation(message, item, f"spec.limits[{name}]", {"planned": number})
    template = at(item.body, "spec", "template")
    types = [
        value
        for row in items(template, "spec", "requirements")
        if text(row, "key") == _CAPACITY_TYPE
        for value in items(row, "values")
    ]
    if types != list(capacity.types):
        planned = " and ".join(capacity.types)
        message = f"starts {', '.join(map(str, types)) or 'any'} nodes, planned {planned}"
        yield RuleViolation(message, item, "spec.template.spec.requirements", {"planned": planned})
    found = labels(template, "metadata", "labels")
    yield from _marks(pool, item, "spec.template.", found, items(template, "spec", "taints"))


def _marks(
    pool: Pool, item: BundleObject, prefix: str, found: Any, taints: list[Any]
) -> Iterator[RuleViolation]:
    """Labels and taints of the nodes: what the plan says and, of taints, nothing else."""
    for key, value in pool.labels.items():
        if found.get(key) != value:
            message = f"label {key} is {found.get(key, 'missing')}, planned {value}"
            yield RuleViolation(message, item, f"{prefix}metadata.labels[{key}]", {"planned": value})
    planned = [taint.as_dict() for taint in pool.taints]
    for taint in planned:
        if taint not in taints:
            message = f"taint {taint['key']}:{taint['effect']} is missing, so any pod can run on the pool"
            yield RuleViolation(message, item, f"{prefix}spec.taints", {"planned": taint})
    for index, extra in enumerate(taints):
        if extra not in planned:
            message = f"taint {text(extra, 'key')} is not planned, and jobs for the pool do not tolerate it"
            yield RuleViolation(message, item, f"{prefix}spec.taints[{index}]", {"taint": extra})


def _unplanned(plan: Plan, bundle: ObjectSet) -> Iterator[RuleViolation]:
    """NodePools that have the label of a pool but are not planned."""
    pools = {pool.name: {capacity.name for capacity in pool.capacities} for pool in plan.pools}
    for item in bundle.of_kind("NodePool"):
        path = ("spec", "template", "metadata", "labels")
        name = labels(item.body, *path).get(POOL_LABEL)
        if name is not None and item.name not in pools.get(name, ()):
            message = f"starts nodes of pool {name!r} that the plan does not know"
            yield RuleViolation(message, item, f"{'.'.join(path)}[{POOL_LABEL}]", {"pool": name})
