"""Random histories of the queue on a real database, against a model of a few lines.

Jobs are submitted, decided, taken, started, ended in every way, cancelled and lost; leaders change; time
passes. After each step the database must say what the model says, and every account must balance.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, ClassVar

import psycopg
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from gpupool.queue.domain.decide import decide
from gpupool.queue.records import JobState, Outcome
from gpupool.queue.store import attempts, dispatch, housekeeping, jobs, outbox
from gpupool.queue.store.database import Database
from gpupool.queue.store.embedded import Embedded
from gpupool.queue.store.errors import Deposed
from gpupool.queue.store.snapshot import take_snapshot
from tests.queue.roles.running import SOURCE, new, opened
from tests.selection import LONG

NUMBERS = count()
HELD = "state IN ('scheduled', 'running')"
RETRIES = 1
HISTORIES = 100 if LONG else 20


@dataclass
class Known:
    """What the model says of a job."""

    state: JobState
    attempt: int = 0
    failures: int = 0
    cancelling: bool = False


class Histories(RuleBasedStateMachine):
    """One database for each history."""

    postgres: ClassVar[Embedded]

    @initialize()
    def begin(self) -> None:
        self.now = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)
        self.known: dict[str, Known] = {}
        self.epochs: list[int] = []
        self.name = f"model_{next(NUMBERS)}"
        with psycopg.connect(self.postgres.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {self.name} TEMPLATE migrated".encode())
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.db: Database = self.run(
            self.stack.enter_async_context(Database.open(self.postgres.url(self.name), connections=2))
        )
        self.run(opened(self.db))
        self.lead("first")

    def run(self, work: Any) -> Any:
        return self.runner.run(work)

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self.run(self.stack.aclose())
            self.runner.close()
            with psycopg.connect(self.postgres.url(), autocommit=True) as connection:
                connection.execute(f"DROP DATABASE {self.name} WITH (FORCE)".encode())

    def lead(self, holder: str) -> None:
        with psycopg.connect(self.postgres.url(self.name), autocommit=True) as connection:
            connection.execute("UPDATE gpu_leader SET expires_at = now() - interval '1 hour'")
        epoch = self.run(dispatch.lead(self.db, dispatch.ROLE, holder, 3600))
        assert epoch is not None
        self.epochs.append(epoch)

    def of(self, *states: JobState) -> list[str]:
        return sorted(id for id, job in self.known.items() if job.state in states)

    @rule(
        pool=st.sampled_from(["notebooks", "training"]),
        exclusive=st.booleans(),
        many=st.integers(1, 3),
        waits=st.booleans(),
    )
    def submit(self, pool: str, exclusive: bool, many: int, waits: bool) -> None:
        isolation = "exclusive" if exclusive and pool == "notebooks" else None
        made = [new(pool=pool, isolation=isolation, retries=RETRIES) for _ in range(many)]
        for id in self.run(jobs.submit(self.db, made, now=self.now)).ids:
            self.known[id] = Known(JobState.QUEUED)
        if not waits:  # or hardly any history gets as far as a running job
            self.round(self.epochs[-1])
            self.taken_and_started(4)

    @rule()
    def decided(self) -> None:
        self.round(self.epochs[-1])

    @precondition(lambda self: len(self.epochs) > 1)
    @rule()
    def a_leader_of_before_writes_nothing(self) -> None:
        try:
            self.round(self.epochs[-2])
        except Deposed:
            return
        raise AssertionError("an old epoch was accepted")

    @rule(holder=st.sampled_from(["second", "third"]))
    def another_leads(self, holder: str) -> None:
        if len(self.epochs) < 4:
            self.lead(f"{holder}-{len(self.epochs)}")

    def round(self, epoch: int) -> None:
        snapshot = self.run(take_snapshot(self.db, self.now, 8))
        supply, plan_hash = SOURCE.supply()
        decision = decide(snapshot, supply)
        for id in self.run(dispatch.claim(self.db, epoch, decision, plan_hash, 30, self.now)):
            job = self.known[id]
            assert job.state is JobState.QUEUED
            job.state, job.attempt = JobState.SCHEDULED, job.attempt + 1

    @rule(limit=st.integers(1, 4))
    def executors_take(self, limit: int) -> None:
        self.taken_and_started(limit)

    def taken_and_started(self, limit: int) -> None:
        for job in self.run(attempts.take(self.db, "executor", limit, 30, self.now)):
            assert self.known[job.id].state is JobState.SCHEDULED
            if self.run(attempts.record_start(self.db, job.id, job.attempt, self.now)):
                self.known[job.id].state = JobState.RUNNING

    @precondition(lambda self: self.of(JobState.RUNNING))
    @rule(data=st.data(), kind=st.sampled_from(["succeeded", "failed", "preempted", "disrupted", "timeout"]))
    def ended(self, data: st.DataObject, kind: str) -> None:
        id = data.draw(st.sampled_from(self.of(JobState.RUNNING)))
        job = self.known[id]
        done = self.run(attempts.finish(self.db, id, job.attempt, Outcome(kind), self.now, (1.0, 2.0)))
        assert done is not None
        again = self.run(attempts.finish(self.db, id, job.attempt, Outcome("failed"), self.now, (1.0, 2.0)))
        assert again is None or again.state is not JobState.FAILED, "an attempt ended twice"
        job.failures += kind in ("failed", "timeout") and not job.cancelling
        if kind == "succeeded":
            job.state = JobState.SUCCEEDED
        elif job.cancelling:
            job.state = JobState.CANCELLED
        elif kind == "timeout" or job.failures > RETRIES:
            job.state = JobState.FAILED
        else:
            job.state = JobState.QUEUED

    @precondition(lambda self: self.of(JobState.QUEUED, JobState.SCHEDULED, JobState.RUNNING))
    @rule(data=st.data())
    def cancelled(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(self.of(JobState.QUEUED, JobState.SCHEDULED, JobState.RUNNING)))
        self.run(jobs.cancel(self.db, id, "ada", self.now))
        if self.known[id].state is JobState.QUEUED:
            self.known[id].state = JobState.CANCELLED
        else:
            self.known[id].cancelling = True

    @rule(minutes=st.integers(0, 3))
    def time_passes(self, minutes: int) -> None:
        self.now += timedelta(minutes=minutes)

    @rule()
    def lost_executors_are_noticed(self) -> None:
        over = [lease for lease in self.run(housekeeping.leases(self.db)) if lease.until < self.now]
        for job in self.run(housekeeping.expire_leases(self.db, over, (0, 0), self.now)):
            known = self.known[job.id]
            assert known.state in (JobState.SCHEDULED, JobState.RUNNING)
            known.state = JobState.CANCELLED if known.cancelling else JobState.QUEUED

    @invariant()
    def the_database_says_what_the_model_says(self) -> None:
        if not hasattr(self, "db"):
            return
        stored = {
            row["id"]: (JobState(row["state"]), row["attempt"], row["failures"])
            for row in self.rows("SELECT id::text, state, attempt, failures FROM gpu_jobs")
        }
        assert stored == {id: (job.state, job.attempt, job.failures) for id, job in self.known.items()}

    @invariant()
    def the_books_balance(self) -> None:
        if not hasattr(self, "db"):
            return
        (held,) = self.rows(
            "SELECT coalesce(sum(hold_micro), 0) AS jobs, "
            "(SELECT coalesce(sum(held_micro), 0) FROM gpu_accounts WHERE scope = 'tenant') AS accounts "
            f"FROM gpu_jobs WHERE {HELD}"
        )
        assert held["jobs"] == held["accounts"]
        (queued,) = self.rows("SELECT queued FROM tenant_gpu_policies WHERE tenant = 'vision'")
        assert queued["queued"] == len(self.of(JobState.QUEUED))
        supply, _ = SOURCE.supply()
        used: Counter[tuple[str, int]] = Counter()
        for row in self.rows("SELECT pool, placement FROM gpu_jobs WHERE state IN ('scheduled', 'running')"):
            for node, units in row["placement"]:
                used[row["pool"], node] += units
        for (pool, node), units in used.items():
            assert units <= supply.pools[pool].nodes[node].slots["nvidia.com/gpu"]
        for id in list(self.known)[:3]:
            events = self.run(outbox.of_job(self.db, id))
            assert [event.seq for event in events] == list(range(1, len(events) + 1))

    def rows(self, statement: str) -> list[dict[str, Any]]:
        async def read() -> list[dict[str, Any]]:
            async with self.db.connection() as connection:
                return await (await connection.execute(statement.encode())).fetchall()

        return self.run(read())


def test_random_histories(postgres: Embedded) -> None:
    Histories.postgres = postgres
    run_state_machine_as_test(
        Histories,
        settings=settings(
            max_examples=HISTORIES, stateful_step_count=25, deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )  # fmt: skip
