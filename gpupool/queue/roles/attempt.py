"""What the launcher's process knows of an attempt beside the cluster and the database.

All of it can be lost: the next process finds out again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from gpupool.queue.records import Job, Outcome, Waiting


@dataclass(slots=True)
class Attempt:
    """One attempt of a container job that is the cluster's. Times are of the launcher's clock, which never
    jumps and is compared with no other."""

    job: Job
    seen: bool = False
    """Whether its Job, or a pod of it, has been seen, so that it is never created twice."""
    here: bool = False
    """Whether its Job has been seen in this cluster."""
    elsewhere: bool = False
    """Whether it was dispatched before the queue had this cluster."""
    launched: bool = False
    """Whether it has been written that its Job exists."""
    served: bool = False
    """Whether its Service is there, if it needs one."""
    running: bool = False
    running_since: datetime | None = None
    """When its first container started; the run limit counts from here."""
    over: datetime | None = None
    """When this process first saw that it has ended."""
    asked: Outcome | None = None
    """How it ends, once it is asked to stop."""
    stopped: bool = False
    due: datetime | None = None
    """When to look at it again whatever happens."""
    has_nodes: bool | None = None
    """Whether each of its pods has a node, before it runs; None until this process has looked."""
    phase_since: datetime | None = None
    """When this process first saw the present `has_nodes`; the limits of an attempt that does not start count
    from here."""
    refusals: int = 0
    """Of its Job, or of its Service, one after another; 0 once the cluster takes it."""
    refused_since: datetime | None = None
    """When the cluster first refused what it refuses now."""
    service_refused: Waiting | None = None
    """Why its Service is not there yet."""
    service_due: datetime | None = None
    """When to ask for its Service again."""
    plan_awaited_since: datetime | None = None
    """When it first had to wait for this process to read the leader's Plan."""
    fits_plan: str | None = None
    """Hash of the Plan that it was last found to agree with."""
    waiting: Waiting | None = None
    """As last written."""

    def ask_to_stop(self, cancelled: bool, preempted: str | None) -> bool:
        """Note that it is to stop, and how it then ends. False where there is no reason to, or it was asked
        before: the first reason stays."""
        if self.asked is not None or not (cancelled or preempted is not None):
            return False
        self.asked = Outcome("cancelled" if cancelled else "preempted", preempted)
        return True

    def look_by(self, at: datetime) -> None:
        """Look at it again at that time, if not before."""
        self.due = min(self.due or at, at)

    def lost(self) -> Outcome:
        """How it ends when its Job is not in the cluster any more, although our finalizer was on it: somebody
        took that off, and does not want it again; or the cluster is another one."""
        if self.asked is not None:
            return self.asked
        if self.elsewhere and not self.here:
            return Outcome("preempted", "the cluster that it was on has gone")
        return Outcome(
            "failed", "its Job was deleted by hand, and the queue's finalizer taken off it", retry=False
        )
