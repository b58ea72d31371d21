"""Whether money allows a start, and how much is held for it.

A hold is what the attempt costs at most; it is settled when the attempt ends. So what runs never exceeds a
budget, and a job with a small budget runs for as long as that pays. This module must not read prices from
anywhere but the offer.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass

from gpupool.environment.money import usd_exact
from gpupool.queue.domain.periods import period_end
from gpupool.queue.domain.state import BudgetUsage, Held, Queued
from gpupool.queue.domain.supply import Allowance, TenantRule, hold_for
from gpupool.queue.records import MICRO, Level, Waiting, WaitReason


@dataclass(frozen=True, slots=True)
class Hold:
    """Money for one attempt."""

    micro: int
    run_limit_s: int


def scopes(tenant: str, project: str | None) -> tuple[str, ...]:
    """The scopes that a job is charged to: its tenant, and its project if it has one."""
    return (tenant, f"{tenant}/{project}") if project else (tenant,)


def hold(job: Queued, rate_micro: int) -> Hold | Waiting:
    """What one attempt holds: the smaller of its timeout's cost and what is left of the job's own budget."""
    if job.budget_limit_micro is None or rate_micro == 0:
        return Hold(hold_for(rate_micro, job.timeout_s), job.timeout_s)
    left = job.budget_limit_micro - job.spent_micro
    seconds = min(job.timeout_s, left * 3600 // rate_micro)
    if seconds < 1:
        return Waiting(WaitReason.BUDGET, f"the job's own budget of {usd(job.budget_limit_micro)} is spent")
    return Hold(min(hold_for(rate_micro, seconds), left), seconds)


@dataclass(frozen=True, slots=True)
class Never:
    """A job that no period pays for, not even if nothing else is spent in it."""

    scope: str | None
    """`tenant` or `tenant/project`, the tightest; None: the job's own budget."""
    period: str
    limit_micro: int
    """What the scope may spend in a period, or what is left of the job's own budget."""
    needed_micro: int
    """The least that one attempt can hold."""
    rate_micro: int
    """What an hour costs at least."""

    def __str__(self) -> str:
        hour = usd(self.rate_micro)
        if self.scope is None:
            return (
                f"what is left of the job's own budget, {usd(self.limit_micro)}, pays for less than a second "
                f"at {hour} an hour; raise budget_limit_usd"
            )
        return (
            f"{self.scope} may spend {usd(self.limit_micro)} a {self.period}, and an attempt holds "
            f"{usd(self.needed_micro)} at {hour} an hour; lower timeout_seconds, or set budget_limit_usd to "
            "what it may cost at most"
        )


def never(job: Queued, rate_micro: int, rule: TenantRule) -> Never | None:
    """Which budget never pays for an attempt at that hourly price; None where each may."""
    needed = hold(job, rate_micro)
    if isinstance(needed, Waiting):
        left = max(0, (job.budget_limit_micro or 0) - job.spent_micro)
        return Never(None, "", left, hold_for(rate_micro, 1), rate_micro)
    tightest = min(budgets_of(job, rule, {}), key=lambda budget: budget[2], default=None)
    if tightest is None or needed.micro <= tightest[2]:
        return None
    scope, allowance, limit, _ = tightest
    return Never(scope, allowance.period, limit, needed.micro, rate_micro)


def refusal(
    job: Queued, amount: int, rule: TenantRule, budget_usage: Mapping[str, BudgetUsage], now: float
) -> Waiting | None:
    """Why the tenant's or the project's budget does not allow `amount` more, by the one that lacks most; None
    where both allow it. `now`: epoch seconds."""
    lacking = [
        (usage.spent_micro + usage.held_micro + amount - limit, scope, allowance, limit, usage)
        for scope, allowance, limit, usage in budgets_of(job, rule, budget_usage)
        if usage.spent_micro + usage.held_micro + amount > limit
    ]
    if not lacking:
        return None
    _, scope, allowance, limit, usage = max(lacking, key=lambda budget: budget[0])
    return Waiting(
        WaitReason.BUDGET,
        f"{scope} has {usd(limit)} a {allowance.period}: {usd(usage.spent_micro)} spent, "
        f"{usd(usage.held_micro)} held, {usd(amount)} needed; the {allowance.period} ends at "
        f"{period_end(allowance.period, now):%Y-%m-%d %H:%M} UTC",
    )


def missing(job: Queued, amount: int, rule: TenantRule, budget_usage: Mapping[str, BudgetUsage]) -> int:
    """What `amount` exceeds the room by of the budget that has least; 0 where each has enough."""
    budgets = budgets_of(job, rule, budget_usage)
    return max((a.spent_micro + a.held_micro + amount - limit for *_, limit, a in budgets), default=0)


def budgets_of(
    job: Queued, rule: TenantRule, budget_usage: Mapping[str, BudgetUsage]
) -> Iterator[tuple[str, Allowance, int, BudgetUsage]]:
    """The budgets that a job counts against: name, allowance, the job's limit, and what is used."""
    for scope in scopes(job.tenant, job.project):
        if (allowance := rule.budgets.get(scope)) is not None:
            over = allowance.overrun_micro if job.level is Level.CRITICAL else 0
            yield scope, allowance, allowance.limit_micro + over, budget_usage.get(scope, BudgetUsage(0, 0))


def budgeted(budgets: Container[str], job: Queued | Held) -> tuple[str, ...]:
    """The scopes of a job that have a budget."""
    return tuple(name for name in scopes(job.tenant, job.project) if name in budgets)


def book(budget_usage: dict[str, BudgetUsage], names: Iterable[str], spent: int, held: int) -> None:
    """Add these millionths of a USD to what the scopes have spent and hold."""
    for scope in names:
        usage = budget_usage.get(scope, BudgetUsage(0, 0))
        budget_usage[scope] = BudgetUsage(usage.spent_micro + spent, max(0, usage.held_micro + held))


def usd(micro: int) -> str:
    """An amount as people read it."""
    return usd_exact(micro / MICRO)
