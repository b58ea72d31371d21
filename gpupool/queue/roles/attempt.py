"""What the launcher's process knows of an attempt beside the cluster and the database.

All of it can be lost: the next process finds out again. This module must not ask either of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from gpupool.queue.records import Job, Outcome, Waiting


@dataclass(slots=True)
class Attempt:
    """One attempt of a container job that is the cluster's."""

    job: Job
    seen: bool = False
    """Whether its Job has been seen, so that it is never created twice."""
    served: bool = False
    """Whether its Service is there, if it needs one."""
    running: bool = False
    asked: Outcome | None = None
    """How it ends, once it is asked to stop."""
    stopped: bool = False
    due: datetime | None = None
    """When to look at it again whatever happens."""
    begun: tuple[bool, datetime] | None = None
    """Whether its pods have nodes, and since when this process has seen that: the clock of the API server may
    be another."""
    refusals: int = 0
    plan: str | None = None
    """The Plan under which it was last found to be as that Plan would make it."""
    waiting: Waiting | None = None
    """As last written."""

    def ask(self, cancelled: bool, preempted: str | None) -> bool:
        """Note that it is to stop, and how it then ends; whether that is new."""
        if self.asked is not None or not (cancelled or preempted is not None):
            return False
        self.asked = Outcome("cancelled" if cancelled else "preempted", preempted)
        return True

    def look_by(self, at: datetime) -> None:
        """Look at it again at that time, if not before."""
        self.due = min(self.due or at, at)

    def lost(self) -> Outcome:
        """How it ends when nothing of it is in the cluster any more."""
        return self.asked or Outcome("preempted", "its Job was deleted by hand, its finalizer too")
