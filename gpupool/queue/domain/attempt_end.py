"""What follows when an attempt ends: what becomes of its job, what it cost, and how far its tenant's clock
goes back.

The store applies it to its rows, and a simulation to its books. This module must not know either.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import NamedTuple

from gpupool.queue.domain import fairness
from gpupool.queue.records import JobState, Outcome

SPENT = "its own budget is spent"
MICROSECONDS_PER_HOUR = 3_600_000_000
SPOT_LOSSES = 3
"""After so many losses of spot nodes, or as many as the job's retries where these are more, a job has no
further spot node."""


class Attempt(NamedTuple):
    """An attempt as it ends, and what its job has behind it. Money in micro-USD."""

    started: bool
    """Whether its container has run."""
    capacity_type: str
    rate_micro: int
    hold_micro: int
    gpu_micro: int
    run_limit_s: int
    weight: float
    """Of its tenant."""
    retries: int
    failures: int
    disruptions: int
    unstarted: int
    """Earlier attempts that failed before they had started."""
    budget_limit_micro: int | None
    """The job's own budget."""
    spent_micro: int
    """What its earlier attempts cost."""
    stopping: bool = False
    """Whether it has been asked to stop: for another job, or as idle."""
    stopped_as: str | None = None
    """Why it was stopped as failed, as an idle job is."""
    cancelled: bool = False
    cancel_reason: str | None = None


class AttemptEnd(NamedTuple):
    """What becomes of the job, and what is booked."""

    state: JobState
    outcome: Outcome
    """As it counts: a request to stop and the attempt's own end may cross."""
    failures: int = 0
    """More of these, as of those below."""
    disruptions: int = 0
    spot_losses: int = 0
    delay_s: float = 0
    """Before the job may start again."""
    cost_micro: int = 0
    clock: int = 0
    """How far the tenant's clock on the pool moves: back, by what the attempt did not use."""

    @property
    def again(self) -> bool:
        """Whether the job waits again."""
        return self.state is JobState.QUEUED


def end_of(attempt: Attempt, outcome: Outcome, ran: timedelta, backoff: tuple[float, float]) -> AttemptEnd:
    """`ran`: for how long its container ran. `backoff`: seconds before the first retry, doubled for each one
    after it, and their upper limit."""
    ran = max(timedelta(), ran) if attempt.started else timedelta()
    outcome = _as_it_counts(attempt, outcome)
    end = _following(attempt, outcome, backoff)
    cost = cost_of(attempt.rate_micro, ran, attempt.hold_micro)
    if end.again and _spent(attempt, cost):
        outcome = replace(outcome, reason=SPENT)
        end = end._replace(state=JobState.FAILED, outcome=outcome, delay_s=0)
    lost = attempt.capacity_type == "spot" and attempt.started and not attempt.stopping
    clock = fairness.charge(attempt.gpu_micro, ran.total_seconds() - attempt.run_limit_s, attempt.weight)
    losses = int(lost and end.disruptions > 0)  # what never ran may have waited for its launcher
    return end._replace(spot_losses=losses, cost_micro=cost, clock=clock)


def _as_it_counts(attempt: Attempt, outcome: Outcome) -> Outcome:
    """How an attempt ends that was asked to stop. Success comes first, as it is reported only where no
    request came before it; then who cancelled, then who stopped it as idle."""
    if outcome.kind == "succeeded":
        return Outcome("succeeded", None, outcome.exit_code)
    if attempt.cancelled:
        return Outcome("cancelled", attempt.cancel_reason, outcome.exit_code)
    if attempt.stopped_as is not None:
        return Outcome("failed", attempt.stopped_as, outcome.exit_code, retry=False)
    return outcome


def _following(attempt: Attempt, outcome: Outcome, backoff: tuple[float, float]) -> AttemptEnd:
    """What follows from an outcome. Failures of the job's own count against its `retries`; those of the
    platform, which has retries of its own, disruptions and preemptions do not. Where one of these came before
    the attempt had started, and is not the job's first, there is a pause as well."""
    if outcome.kind == "succeeded":
        return AttemptEnd(JobState.SUCCEEDED, outcome)
    if outcome.kind == "cancelled":
        return AttemptEnd(JobState.CANCELLED, outcome)
    if outcome.kind in ("disrupted", "preempted") and outcome.retry:
        # What takes pods away before they start may do so for ever.
        again = not attempt.started and not attempt.stopping and attempt.disruptions > 0
        delay = _delay_s(backoff, attempt.disruptions) if again else 0.0
        return AttemptEnd(JobState.QUEUED, outcome, disruptions=1, delay_s=delay)
    if outcome.platform_retries is not None:
        number, retries = attempt.unstarted + 1, max(outcome.platform_retries, attempt.retries)
        if outcome.retry and number <= retries:
            delay = _delay_s(backoff, number)
            return AttemptEnd(JobState.QUEUED, outcome, disruptions=1, delay_s=delay)
        return AttemptEnd(JobState.FAILED, outcome, failures=1)
    failures = attempt.failures + 1
    if outcome.kind == "timeout" or not outcome.retry or failures > attempt.retries:
        return AttemptEnd(JobState.FAILED, outcome, failures=1)
    delay = max(outcome.pause_s, _delay_s(backoff, failures))
    return AttemptEnd(JobState.QUEUED, outcome, failures=1, delay_s=delay)


def on_demand_only(spot_losses: int, retries: int) -> bool:
    """Whether a job that has lost so many spot nodes is to have none any more."""
    return spot_losses >= max(retries, SPOT_LOSSES)


def _delay_s(backoff: tuple[float, float], number: int) -> float:
    """Before the retry of that number, counted from 1."""
    base, cap = backoff
    return min(cap, base * 2.0 ** min(number - 1, 60))


def _spent(attempt: Attempt, cost: int) -> bool:
    """Whether the job's own budget does not pay for another second."""
    if attempt.budget_limit_micro is None or not attempt.rate_micro:
        return False
    left = attempt.budget_limit_micro - attempt.spent_micro - cost
    return left * 3600 < attempt.rate_micro


def cost_of(rate_micro: int, ran: timedelta, hold_micro: int) -> int:
    """What an attempt costs: its time at the hourly rate, rounded up, and never more than was held for it."""
    micros = ran // timedelta(microseconds=1)
    return min(hold_micro, -(-rate_micro * micros // MICROSECONDS_PER_HOUR))
