"""The queue's page as its own code writes it, for a made-up moment in which every tenant holds and waits."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from prometheus_client import CollectorRegistry, generate_latest

from gpupool.environment.plan.model import Plan
from gpupool.queue.api.figures import figures
from gpupool.queue.domain.state import BudgetUsage, Held, Holdings, Snapshot
from gpupool.queue.domain.supply import supply_of
from gpupool.queue.measures import Measures
from gpupool.queue.records import MICRO, Level
from gpupool.queue.store.jobs import Waits


class QueuePage:
    """What the queue of a plan shows from moment to moment; counters go on."""

    def __init__(self, plan: Plan) -> None:
        self._supply = supply_of(plan)
        self._measures = Measures(CollectorRegistry())
        self._spent = dict.fromkeys(self._supply.tenants, 5 * MICRO)

    def text(self, now: datetime, load_of: Callable[[str], float] = lambda _: 0.1) -> str:
        """The page. `load_of`: the share of its grants that a tenant's jobs hold, at least one slice each."""
        held, waiting = Holdings(), []
        self._measures.decision.observe(0.01 + 0.02 * load_of(""))
        for number, (tenant, pool) in enumerate(
            (tenant, pool) for tenant in self._supply.tenants.values() for pool in self._supply.pools.values()
        ):
            resource, load = next(iter(pool.gpu_micro)), load_of(tenant.name)
            units = max(1, round(load * tenant.grants.get((pool.name, resource), 0)))
            rate = pool.rate_micro[resource] * units
            held.add(
                Held(
                    job=f"job-{number}",
                    attempt=1,
                    tenant=tenant.name,
                    project=None,
                    level=Level.LOW,
                    pool=pool.name,
                    resource=resource,
                    capacity_type=sorted(pool.types)[number // len(self._supply.pools) % len(pool.types)]
                    if pool.types
                    else "on-demand",
                    placement=((0, units),),
                    gpu_micro=pool.gpu_micro[resource] * units,
                    hold_micro=MICRO,
                    since=now.timestamp(),
                    run_limit_s=3600,
                    preemptible=False,
                    rate_micro=rate,
                )
            )
            self._spent[tenant.name] += rate // 60  # a page a minute
            reason = "capacity" if load > 0.5 or not number else "tenant_limit"
            jobs, since = 2 + round(6 * load), now - timedelta(minutes=3 + 40 * load * load)
            waiting.append(Waits(tenant.name, Level.LOW.value, pool.name, reason, jobs, since))
            self._measures.attempts.labels(pool.name, "succeeded").inc(1 + round(3 * load))
            self._measures.attempts.labels(pool.name, "failed").inc(number % 7 == 0)
            self._measures.wait.labels(tenant.name, "low").observe(20 + 900 * load * load)
        accounts = {name: BudgetUsage(micro, MICRO) for name, micro in self._spent.items()}
        snapshot = Snapshot(now.timestamp(), held, {}, accounts)
        page = figures(snapshot, self._supply, waiting, self._spent)
        return (generate_latest(page) + generate_latest(self._measures.registry)).decode()


def queue_page(plan: Plan) -> str:
    """The page of this moment."""
    return QueuePage(plan).text(datetime.now(UTC))
