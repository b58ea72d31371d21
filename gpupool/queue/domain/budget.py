"""Whether money allows a start, and how much is held for it.

A hold is what the attempt costs at most; it is settled when the attempt ends. So what runs never exceeds a
budget, and a job with a small budget runs for as long as that pays. This module must not read prices from
anywhere but the offer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpupool.money import usd_exact
from gpupool.queue.domain.state import Account, Held, Queued
from gpupool.queue.domain.supply import Allowance, TenantRule, hold_for
from gpupool.queue.records import MICRO, Level, Reason, Waiting


@dataclass(frozen=True, slots=True)
class Hold:
    """Money for one attempt."""

    micro: int
    run_limit_s: int


def scopes(tenant: str, project: str | None) -> tuple[str, ...]:
    """The accounts that a job is charged to."""
    return (tenant, f"{tenant}/{project}") if project else (tenant,)


def hold(job: Queued, rate_micro: int) -> Hold | Waiting:
    """What one attempt holds: the smaller of its timeout's cost and what is left of the job's own budget."""
    if job.budget_limit_micro is None or rate_micro == 0:
        return Hold(hold_for(rate_micro, job.timeout_s), job.timeout_s)
    left = job.budget_limit_micro - job.spent_micro
    seconds = min(job.timeout_s, left * 3600 // rate_micro)
    if seconds < 1:
        return Waiting(Reason.BUDGET, f"the job's own budget of {usd(job.budget_limit_micro)} is spent")
    return Hold(min(hold_for(rate_micro, seconds), left), seconds)


def refusal(job: Queued, amount: int, rule: TenantRule, accounts: Mapping[str, Account]) -> Waiting | None:
    """Why the tenant's or the project's budget does not allow `amount` more; None where it does."""
    for scope, allowance, limit, account in _budgets(job, rule, accounts):
        if account.spent_micro + account.held_micro + amount > limit:
            return Waiting(
                Reason.BUDGET,
                f"{scope} has {usd(limit)} a {allowance.period}: {usd(account.spent_micro)} spent, "
                f"{usd(account.held_micro)} held, {usd(amount)} needed",
            )
    return None


def missing(job: Queued, amount: int, rule: TenantRule, accounts: Mapping[str, Account]) -> int:
    """What `amount` exceeds the room by of the budget that has least; 0 where each has enough."""
    budgets = _budgets(job, rule, accounts)
    return max((a.spent_micro + a.held_micro + amount - limit for *_, limit, a in budgets), default=0)


def _budgets(
    job: Queued, rule: TenantRule, accounts: Mapping[str, Account]
) -> Iterator[tuple[str, Allowance, int, Account]]:
    """The budgets that a job counts against: name, allowance, the job's limit, and what is used."""
    for scope in scopes(job.tenant, job.project):
        if (allowance := rule.budgets.get(scope)) is not None:
            over = allowance.overrun_micro if job.level is Level.CRITICAL else 0
            yield scope, allowance, allowance.limit_micro + over, accounts.get(scope, Account(0, 0))


def book(accounts: dict[str, Account], job: Queued | Held, spent: int, held: int) -> None:
    """Add so many millionths of a USD to what the accounts of `job` have spent, and to what they hold."""
    for scope in scopes(job.tenant, job.project):
        account = accounts.get(scope, Account(0, 0))
        accounts[scope] = Account(account.spent_micro + spent, max(0, account.held_micro + held))


def usd(micro: int) -> str:
    """An amount as people read it."""
    return usd_exact(micro / MICRO)
