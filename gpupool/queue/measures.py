"""What roles measure as they work: how long jobs wait, how long decisions and dispatches take.

Each process has one; `/metrics` of the process shows it beside what the database says. This module must not
ask the database.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from gpupool.queue.domain.state import Queued
from gpupool.queue.records import Job, JobEvent

_LONG = (0.5, 1, 5, 15, 30, 60, 300, 600, 1800, 3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600)
_SHORT = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)


disable_created_metrics()  # type: ignore[no-untyped-call]  # a series more for each counter, which Prometheus does not need


class Measures:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.wait = Histogram(
            "gpupool_queue_wait_seconds",
            "From a job's submission to the decision that starts it.",
            ["tenant", "priority"],
            buckets=_LONG,
            registry=registry,
        )
        self.decision = Histogram(
            "gpupool_queue_decision_seconds",
            "How long a round of decisions takes, database included.",
            buckets=_SHORT,
            registry=registry,
        )
        self.dispatch = Histogram(
            "gpupool_queue_dispatch_seconds",
            "From the decision that a job starts until it runs.",
            ["pool"],
            buckets=_LONG,
            registry=registry,
        )
        self.attempts = Counter(
            "gpupool_queue_attempts_total",
            "Attempts that ended.",
            ["pool", "outcome"],
            registry=registry,
        )
        self.callbacks = Counter(
            "gpupool_queue_callbacks_total",
            "Calls of callback_url: taken, again (it will be tried again) or given_up.",
            ["outcome"],
            registry=registry,
        )
        self.alerts = Counter(
            "gpupool_queue_alerts_total",
            "Alerts that were sent, or could not be.",
            ["channel", "outcome"],
            registry=registry,
        )
        self.leads = Gauge(
            "gpupool_queue_leader", "Whether this process leads the role.", ["role"], registry=registry
        )
        self.idle = Counter(
            "gpupool_queue_idle_attempts_total",
            "Attempts that were found idle, and what was done.",
            ["action"],
            registry=registry,
        )
        self.idle_unknown = Counter(
            "gpupool_queue_idle_unknown_total",
            "Times that Prometheus did not say how much GPUs are used.",
            registry=registry,
        )

    def round(self, now: datetime, started: Collection[Queued], seconds: float) -> None:
        """One round of decisions, and the jobs that it started for the first time."""
        self.decision.observe(seconds)
        for job in started:
            if not job.attempt:
                waited = max(0.0, now.timestamp() - job.enqueued)
                self.wait.labels(job.tenant, job.level.name.lower()).observe(waited)

    def placed(self, events: Iterable[JobEvent]) -> None:
        """Events that have got their places; each passes here once, whatever was killed meanwhile."""
        for event in events:
            outcome = event.data.get("outcome")
            if outcome is not None and event.pool is not None:
                self.attempts.labels(event.pool, outcome).inc()

    def started(self, now: datetime, job: Job) -> None:
        """A dispatched job runs."""
        if job.dispatched_at is not None and job.pool is not None:
            self.dispatch.labels(job.pool).observe(max(0.0, (now - job.dispatched_at).total_seconds()))
