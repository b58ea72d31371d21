"""A request that one attempt stops, and why. The first reason stays."""

from __future__ import annotations

import asyncio

from gpupool.queue.records import Outcome


class Stop:
    """Asked at most once; the code that runs the attempt waits for it."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self.why: str | None = None
        """cancelled, preempted, disrupted or lost; None before that."""
        self.reason: str | None = None

    def ask(self, why: str, reason: str | None = None) -> None:
        if self.why is None:
            self.why, self.reason = why, reason
            self._asked.set()

    async def wait(self) -> None:
        await self._asked.wait()

    def outcome(self) -> Outcome:
        """How an attempt ends that was stopped."""
        return Outcome(self.why or "disrupted", self.reason)
