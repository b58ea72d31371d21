"""What the launcher writes of attempts a moment later, many at once: that Jobs exist, pods run, or why not.

Nothing is lost with a process: the next one sees the same in the cluster and writes it. This module must not
decide what is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from gpupool.queue.kubernetes.mirror import Key
from gpupool.queue.measures import Measures
from gpupool.queue.records import Waiting
from gpupool.queue.roles.attempt import Attempt
from gpupool.queue.store import attempts, launches
from gpupool.queue.store.attempts import AttemptStart
from gpupool.queue.store.database import Database
from gpupool.queue.store.errors import StoreError
from gpupool.queue.store.launches import Launched

log = structlog.get_logger()

TOGETHER_S = 0.05
"""What comes within so long is written together."""


@dataclass
class Notes:
    """Each attempt's fields `launched`, `running` and `waiting` say what has been written. `epoch` is None
    where it is not certain to lead."""

    db: Database
    clock: Callable[[], datetime]
    epoch: Callable[[], int | None]
    measures: Measures | None
    start: Callable[..., None]
    """Runs a coroutine beside the rest."""
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    def __post_init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._launched: dict[Key, tuple[Attempt, Launched]] = {}
        self._started: dict[Key, tuple[Attempt, AttemptStart]] = {}
        self._waits: dict[Key, tuple[Attempt, Waiting | None]] = {}

    def launched(self, attempt: Attempt, launched: Launched) -> None:
        """Its Job exists."""
        self._soon()
        self._launched[launched.job, launched.attempt] = attempt, launched

    def started(self, attempt: Attempt, start: AttemptStart) -> None:
        """Its pods run."""
        self._soon()
        self._started[start.job, start.attempt] = attempt, start

    def waits(self, attempt: Attempt, waiting: Waiting | None) -> None:
        """Why it does not run yet, or what is wrong with it while it runs."""
        key = attempt.job.id, attempt.job.attempt
        if waiting == attempt.waiting:
            self._waits.pop(key, None)
        else:
            self._soon()
            self._waits[key] = attempt, waiting

    def _soon(self) -> None:
        if not (self._launched or self._started or self._waits):
            self.start(self._write())

    async def _write(self) -> None:
        await asyncio.sleep(TOGETHER_S)
        async with self._writing:  # an older one must not come after a newer one
            await self._write_now()

    async def _write_now(self) -> None:
        launched, started, waits, epoch = self._launched, self._started, self._waits, self.epoch()
        self._clear()
        try:
            if launched:
                await launches.record_launches(self.db, [launch for _, launch in launched.values()])
                for attempt, _ in launched.values():
                    attempt.launched = True
            if started:
                written = await attempts.record_starts(self.db, [start for _, start in started.values()])
                for key, (attempt, start) in started.items():
                    if key in written and self.measures:
                        self.measures.started(start.since, attempt.job)
                    attempt.running, attempt.waiting = True, None
            if waits and epoch is not None:
                given = {key: waiting for key, (_, waiting) in waits.items()}
                await launches.record_waits(self.db, epoch, given)
                for attempt, waiting in waits.values():
                    attempt.waiting = waiting
        except StoreError as error:  # the next look at these attempts notes the same again
            said = {"launched": len(launched), "started": len(started), "waits": len(waits)}
            log.warning("launcher.unrecorded", **said, error=str(error))
            again = self.clock()
            for attempt, _ in (*launched.values(), *started.values(), *waits.values()):
                attempt.look_by(again)
