"""Figures of the whole queue at one moment, as Prometheus reads them.

Every process with the API answers the same, as the label `scope="queue"` says: take `max by` of each before
they are added up, as the recording rules of `gpupool.generators.monitoring` do. Series of tenants, levels,
pools and reasons are there at zero too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gpupool.queue.domain import cost
from gpupool.queue.domain.borrowing import grant_usages
from gpupool.queue.domain.state import BudgetUsage, Snapshot
from gpupool.queue.domain.supply import Supply
from gpupool.queue.records import MICRO, Level, WaitReason
from gpupool.queue.store.jobs import Waits

_Key = TypeVar("_Key", bound=tuple[str, ...])
_OF_A_QUEUED_JOB = tuple(
    reason for reason in WaitReason if reason not in (WaitReason.NODE, WaitReason.STARTING, WaitReason.IMAGE)
)
"""Reasons of jobs that have no attempt yet."""


@dataclass(eq=False)
class Figures(Collector):
    """Computed once; a registry shows it."""

    families: tuple[Metric, ...]

    def collect(self) -> Iterator[Metric]:
        return iter(self.families)


def figures(
    seen: Snapshot, supply: Supply, waiting: Sequence[Waits], settled: Mapping[str, int]
) -> CollectorRegistry:
    """The queue at the moment of the snapshot."""
    families = (*_waiting(seen, supply, waiting), *_held(seen, supply), *_money(seen, supply, settled))
    for family in families:
        family.samples = [
            sample._replace(labels={**sample.labels, "scope": "queue"}) for sample in family.samples
        ]
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Figures(families))
    return registry


def _gauge(name: str, text: str, labels: Sequence[str], values: Mapping[_Key, float]) -> GaugeMetricFamily:
    """`values`: those of the labels -> the gauge's."""
    gauge = GaugeMetricFamily(f"gpupool_queue_{name}", text, labels=labels)
    for key in sorted(values):
        gauge.add_metric(key, values[key])
    return gauge


def _whole(micro: Mapping[_Key, int]) -> dict[_Key, float]:
    """GPUs or USD of millionths."""
    return {key: amount / MICRO for key, amount in micro.items()}


def _waiting(seen: Snapshot, supply: Supply, waiting: Iterable[Waits]) -> Iterator[Metric]:
    levels = [level.name.lower() for level in Level]
    jobs = Counter[tuple[str, ...]]({(tenant, level): 0 for tenant in supply.tenants for level in levels})
    reasons = Counter[tuple[str, ...]](
        {(pool, reason.value): 0 for pool in supply.pools for reason in _OF_A_QUEUED_JOB}
    )
    ages, pool_ages = dict.fromkeys(jobs, 0.0), dict.fromkeys(reasons, 0.0)
    for row in waiting:
        key, why = (row.tenant, Level(row.level).name.lower()), (row.pool, row.reason)
        age = max(0.0, seen.now - row.since.timestamp()) if row.since else 0.0
        jobs[key] += row.jobs
        reasons[why] += row.jobs
        ages[key] = max(ages.get(key, 0.0), age)
        pool_ages[why] = max(pool_ages.get(why, 0.0), age)
    whose, where = ("tenant", "priority"), ("pool", "reason")
    yield _gauge("jobs_queued", "Queued jobs.", whose, jobs)
    yield _gauge(
        "oldest_wait_seconds",
        "How long the job that has waited longest has done so without a break; 0 where none waits.",
        whose,
        ages,
    )
    yield _gauge(
        "jobs_waiting", "Queued jobs, by the pool that they ask for and why they wait.", where, reasons
    )
    yield _gauge(
        "pool_oldest_wait_seconds",
        "The longest wait of those that wait for the reason at present; 0 where none does.",
        where,
        pool_ages,
    )


def _held(seen: Snapshot, supply: Supply) -> Iterator[Metric]:
    gpus, most, guaranteed = (Counter[tuple[str, ...]]() for _ in range(3))
    for pool in supply.pools.values():
        for capacity_type in pool.types:
            gpus[pool.name, "", capacity_type, "job"] += 0
        for node in pool.nodes:
            there = sum(pool.gpu_micro[kind] * units for kind, units in node.slots.items())
            most[pool.name, node.capacity_type] += there
    for job in seen.held:
        gpus[job.pool, job.tenant, job.capacity_type, "job" if job.of_queue else "pod"] += job.gpu_micro
    for rule in supply.tenants.values():
        for (name, resource), units in rule.guaranteed.items():
            guaranteed[name, rule.name] += units * supply.pools[name].gpu_micro.get(resource, 0)
    yield _gauge(
        "gpus_held",
        "GPUs that jobs hold, and pods of tenants' own; a slice is a part of a GPU.",
        ("pool", "tenant", "capacity_type", "by"),
        _whole(gpus),
    )
    borrowed, lending = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    for use in grant_usages(supply, seen.held):
        each = supply.pools[use.pool].gpu_micro[use.resource]
        borrowed[use.pool, use.tenant] += use.borrowed * each
        lending[use.pool, use.tenant] += use.lending * each
    yield _gauge(
        "gpus_borrowed",
        "GPUs of a pool that a tenant holds beyond its grant.",
        ("pool", "tenant"),
        _whole(borrowed),
    )
    yield _gauge(
        "gpus_lending",
        "GPUs of a pool that a tenant is granted and leaves idle, and that others have borrowed.",
        ("pool", "tenant"),
        _whole(lending),
    )
    yield _gauge(
        "gpus_guaranteed",
        "GPUs of a pool that a tenant can count on: its grant, or its part where grants exceed the pool.",
        ("pool", "tenant"),
        _whole(guaranteed),
    )
    yield _gauge(
        "pool_gpus_max",
        "GPUs that a pool has at its maximum.",
        ("pool", "capacity_type"),
        _whole(most),
    )
    yield _gauge(
        "cost_usd_per_hour",
        "Price of what runs at this moment; of pods at the price of their pool.",
        cost.GpuHolding._fields,
        _whole(cost.per_hour(seen, supply)),
    )


def _money(seen: Snapshot, supply: Supply, settled: Mapping[str, int]) -> Iterator[Metric]:
    limits = {
        scope: allowance.limit_micro
        for rule in supply.tenants.values()
        for scope, allowance in rule.budgets.items()
    }
    # Where nothing is spent yet, that is a share of the budget as well.
    budget_usage = dict.fromkeys(limits, BudgetUsage(0, 0)) | dict(seen.budget_usage)
    whose = ("tenant", "project")
    spent = {_scope(scope): usage.spent_micro for scope, usage in budget_usage.items()}
    held = {_scope(scope): usage.held_micro for scope, usage in budget_usage.items()}
    budgets = {_scope(scope): limit for scope, limit in limits.items()}
    yield _gauge(
        "spent_usd", "Spent in the present period; a tenant's with its projects'.", whose, _whole(spent)
    )
    yield _gauge("held_usd", "Held for running jobs, likewise.", whose, _whole(held))
    yield _gauge("budget_usd", "Budget of a period, of those that have one.", whose, _whole(budgets))
    total = CounterMetricFamily(
        "gpupool_queue_settled_usd",
        "What attempts that ended have cost, ever; without a project that of jobs of none.",
        labels=whose,
    )
    for key, amount in sorted(_whole(_apart(settled)).items()):
        total.add_metric(key, amount)
    yield total


def _scope(name: str) -> tuple[str, str]:
    tenant, _, project = name.partition("/")
    return tenant, project


def _apart(settled: Mapping[str, int]) -> Counter[tuple[str, str]]:
    """(tenant, project) -> amount, each once: an account of a tenant has its projects' too."""
    found = Counter({_scope(name): micro for name, micro in settled.items()})
    for (tenant, project), micro in list(found.items()):
        if project:
            found[tenant, ""] -= micro
    return found
