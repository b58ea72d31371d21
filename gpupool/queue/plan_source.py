"""The Plan that the queue works by at present: read again when the environment file changes.

A file that is wrong changes nothing: the queue goes on by the Plan it has, and all its answers say so. It
must not fill in anything that the file does not say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog

from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.resolve import resolve
from gpupool.environment.spec.load import load
from gpupool.findings import GpupoolError, SpecError
from gpupool.queue.domain.current import Current, current
from gpupool.queue.domain.supply import Supply
from gpupool.queue.records import PlanInForce

log = structlog.get_logger()

AGAIN = timedelta(seconds=10)
"""A file that is refused is read again after so long, also unchanged: what it names may have changed."""
DIFFERS = timedelta(seconds=10)
"""For so long processes may have read a change, and others not."""
LONGEST = 500
"""Characters of what is wrong with a file."""


@dataclass(frozen=True, slots=True)
class RefusedFile:
    """What is wrong with the environment file on disk."""

    since: datetime
    why: str
    """The first finding, with file, line and column where it has them."""


@dataclass(frozen=True, slots=True)
class PlanState:
    """Which Plan a process works by, and what is wrong about that."""

    hash: str
    since: datetime
    """When this process read it."""
    refused: RefusedFile | None = None
    """None: the file on disk is the one in use."""
    leader: PlanInForce | None = None
    """What another process decides by, where that has been another Plan for a while."""

    def notices(self, whole: bool) -> tuple[str, ...]:
        """What is wrong, a sentence each; `whole`: for operators, with what the file has."""
        notices = []
        if self.refused is not None:
            why = f": {self.refused.why}" if whole else ""
            notices.append(
                f"the environment file on disk is refused since {_moment(self.refused.since)}{why}; "
                f"the queue goes on by plan {self.hash} of {_moment(self.since)}"
            )
        if self.leader is not None:
            leader = f"{self.leader.holder}, which leads" if whole else "the one that leads"
            notices.append(
                f"this process of the queue reads plan {self.hash}, and {leader}, decides by plan "
                f"{self.leader.hash} since {_moment(self.leader.since)}: its limits hold until all processes "
                "have the same environment file"
            )
        return tuple(notices)


class PlanSource:
    """The present Plan of one environment file. Raises SpecError where the first reading finds it wrong."""

    def __init__(self, path: Path, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.path = path
        self._now = now
        self._seen = self._mark()
        self._read_at = self._since = now()
        self.current = current(resolve(load(path)))
        self._refused: RefusedFile | None = None
        self._in_force: PlanInForce | None = None
        self._differs_since: datetime | None = None

    def present(self) -> Current:
        return self.current

    def plan(self) -> Plan:
        return self.current.plan

    def supply(self) -> tuple[Supply, str]:
        return self.current.supply, self.current.hash

    def targets(self) -> tuple[str, ...]:
        return self.current.plan.queue.targets

    def state(self) -> PlanState:
        """Which Plan it is, and what is wrong about that."""
        differs = self._differs_since is not None and self._now() - self._differs_since >= DIFFERS
        return PlanState(self.current.hash, self._since, self._refused, self._in_force if differs else None)

    def leads(self, in_force: PlanInForce | None) -> None:
        """Note by which Plan the leader decides."""
        self._in_force = in_force
        if in_force is None or in_force.hash == self.current.hash:
            self._differs_since = None
        elif self._differs_since is None:
            self._differs_since = self._now()

    def refresh(self) -> None:
        """Read the file again where it has changed."""
        mark, now = self._mark(), self._now()
        again = self._refused is not None and now - self._read_at >= AGAIN
        if mark == self._seen and not again:
            return
        self._seen, self._read_at = mark, now
        try:
            read = current(resolve(load(self.path)))
        except (GpupoolError, OSError, ValueError, RecursionError) as error:
            why = _why(error)
            if self._refused is None or self._refused.why != why:
                log.error("plan.refused", file=str(self.path), error=str(error), kept=self.current.hash)
            self._refused = RefusedFile(self._refused.since if self._refused else now, why)
            return
        if self._refused is not None:
            log.info("plan.accepted", file=str(self.path), plan=read.hash)
        self._refused = None
        if read.hash != self.current.hash:
            self._since = now
            log.info("plan.changed", file=str(self.path), plan=read.hash)
            self.current = read

    def _mark(self) -> tuple[int, ...] | None:
        """What changes with the file: its content, its place (a link to another one) and its permissions."""
        try:
            stat = self.path.stat()
        except OSError:
            return None
        return (stat.st_mtime_ns, stat.st_size, stat.st_ino, stat.st_ctime_ns)


def _why(error: Exception) -> str:
    findings = error.findings if isinstance(error, SpecError) else ()
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    first = " ".join(str(findings[0] if findings else error).split()) or type(error).__name__
    return first[:LONGEST] + more


def _moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
