"""What operations share: the Plan in force, the database, verifiers, rates, the clock.

One is made by `create_app` and handed to operations as a dependency. This module must not hold state of its
own beside them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from fastapi import Request

from gpupool.environment.plan.model import Plan
from gpupool.queue.api.cache import Cache
from gpupool.queue.api.concurrency import ConcurrencyLimits
from gpupool.queue.api.credentials import Keys
from gpupool.queue.api.explanations import Explanations
from gpupool.queue.api.oidc import Oidc
from gpupool.queue.api.rate import Buckets
from gpupool.queue.api.request_limits import AtOnce
from gpupool.queue.api.token_review import PodTokens
from gpupool.queue.domain.current import Current
from gpupool.queue.kubernetes.admission import Admission
from gpupool.queue.plan_source import PlanState
from gpupool.queue.store import outbox
from gpupool.queue.store.database import Database
from gpupool.queue.trouble import Trouble


@dataclass(frozen=True, slots=True)
class RequestContext:
    current: Callable[[], Current]
    """The Plan in force, with what is derived from it."""
    plan_state: Callable[[], PlanState]
    """What is wrong about that Plan."""
    db: Database
    dev: bool
    """Whether requests from loopback need no credential."""
    token: Path | None
    """The file with the token of this project's queue, with `dev`."""
    metrics_key: str | None
    """By which metrics may be read, beside API keys with that scope."""
    clock: Callable[[], datetime]
    trouble: Callable[[], Trouble | None]
    """What keeps the queue from working on its cluster."""
    keys: Keys
    oidc: Oidc
    pods: PodTokens | None
    """None: outside of a cluster."""
    admission: Admission | None
    """Judges container jobs; None: they do not go to a cluster."""
    explanations: Explanations
    positions: Cache[None, int]
    """Of the latest event, for all streams."""
    requests: AtOnce
    """Of operations, those included that wait for their caller's turn."""
    concurrency: ConcurrencyLimits[str]
    """What is worked on for a caller at a time; a caller with more waits for itself alone."""
    large_concurrency: ConcurrencyLimits[str]
    """The same for requests with large bodies."""
    bodies: AtOnce
    """Bytes of bodies that callers have under way."""
    streams: AtOnce
    """Answers that do not end by themselves."""
    rate: Buckets
    """Of each caller."""
    failures: Buckets
    """Invalid credentials of each address."""

    def plan(self) -> Plan:
        return self.current().plan

    async def latest_position(self) -> int:
        """The position of the latest event, as it was at most a quarter of a second ago."""

        async def read() -> int:
            return (await outbox.bounds(self.db))[1]

        return await self.positions.get(None, time.monotonic(), read)

    def now(self) -> float:
        """Epoch seconds."""
        return self.clock().timestamp()


def utc_now() -> datetime:
    return datetime.now(UTC)


async def present(request: Request) -> RequestContext:
    """The application's context, as a dependency. (Not async, FastAPI would run it in a thread.)"""
    return cast(RequestContext, request.app.state.context)
