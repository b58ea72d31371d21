"""What is done about one attempt of a container job: a table from what is to become of it, and what the
cluster has of it, to one action. Pure.

Each look at an attempt finds its row again, so that nothing but this table says in which order things happen,
and a process that ends anywhere loses nothing. How far an attempt has come, and whether it has to end, is
judged in `progress`; the actions are carried out in `reconciler`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto

from gpupool.queue.kubernetes.job_manifest import Object
from gpupool.queue.kubernetes.observe import Ended, RunningJob, View
from gpupool.queue.roles.attempt import Attempt

FOREGROUND = "foregroundDeletion"
"""The finalizer of an object that waits for its dependents' deletion (Kubernetes, Garbage Collection)."""


class DesiredAttempt(Enum):
    """What is to become of an attempt."""

    RUN = auto()
    """It is to run until it ends by itself."""
    END = auto()
    """It is to stop, and how it then ends is known."""
    GONE = auto()
    """It is not among those that run: nothing of it is to be in the cluster."""


class ObservedAttempt(Enum):
    """What the cluster has of an attempt."""

    ABSENT = auto()
    """Neither a Job nor a pod, and none was ever seen."""
    LOST = auto()
    """Neither a Job nor a pod any more."""
    STARTING = auto()
    """A Job whose containers have not all started."""
    RUNNING = auto()
    """A Job whose containers run."""
    DELETED = auto()
    """Something of it still runs or may start, and somebody else deletes its Job: its pods may stay."""
    STOPPING = auto()
    """Something of it still runs or may start, and nothing is left to ask for: its Job has been stopped, or
    only pods are left."""
    ENDED = auto()
    """No container of it runs or will."""


class AttemptAction(Enum):
    """What is done about it."""

    CREATE = auto()
    """Create its Job."""
    WAIT = auto()
    """Leave it to the cluster; it is looked at again when something changes, and after a while."""
    STOP = auto()
    """Delete its Job, with its pods."""
    RECORD = auto()
    """Write how it ended, and then let the cluster forget it."""
    DISCARD = auto()
    """Stop it if it runs, and let the cluster forget it."""


ACTIONS: Mapping[tuple[DesiredAttempt, ObservedAttempt], AttemptAction] = {
    (DesiredAttempt.RUN, ObservedAttempt.ABSENT): AttemptAction.CREATE,
    (
        DesiredAttempt.RUN,
        ObservedAttempt.LOST,
    ): AttemptAction.RECORD,  # our finalizer was taken off: it is not wanted again
    (DesiredAttempt.RUN, ObservedAttempt.STARTING): AttemptAction.WAIT,
    (DesiredAttempt.RUN, ObservedAttempt.RUNNING): AttemptAction.WAIT,
    (
        DesiredAttempt.RUN,
        ObservedAttempt.DELETED,
    ): AttemptAction.STOP,  # it can't go on, and what is left holds GPUs
    (DesiredAttempt.RUN, ObservedAttempt.STOPPING): AttemptAction.WAIT,
    (DesiredAttempt.RUN, ObservedAttempt.ENDED): AttemptAction.RECORD,
    (DesiredAttempt.END, ObservedAttempt.ABSENT): AttemptAction.RECORD,
    (DesiredAttempt.END, ObservedAttempt.LOST): AttemptAction.RECORD,
    (DesiredAttempt.END, ObservedAttempt.STARTING): AttemptAction.STOP,
    (DesiredAttempt.END, ObservedAttempt.RUNNING): AttemptAction.STOP,
    (DesiredAttempt.END, ObservedAttempt.DELETED): AttemptAction.STOP,
    (
        DesiredAttempt.END,
        ObservedAttempt.STOPPING,
    ): AttemptAction.WAIT,  # it has not ended while a container may run
    (DesiredAttempt.END, ObservedAttempt.ENDED): AttemptAction.RECORD,
    (DesiredAttempt.GONE, ObservedAttempt.ABSENT): AttemptAction.DISCARD,
    (DesiredAttempt.GONE, ObservedAttempt.LOST): AttemptAction.DISCARD,
    (DesiredAttempt.GONE, ObservedAttempt.STARTING): AttemptAction.DISCARD,
    (DesiredAttempt.GONE, ObservedAttempt.RUNNING): AttemptAction.DISCARD,
    (DesiredAttempt.GONE, ObservedAttempt.DELETED): AttemptAction.DISCARD,
    (DesiredAttempt.GONE, ObservedAttempt.STOPPING): AttemptAction.DISCARD,
    (DesiredAttempt.GONE, ObservedAttempt.ENDED): AttemptAction.DISCARD,
}


def desired(attempt: Attempt | None) -> DesiredAttempt:
    """What is to become of an attempt; None is one that is not among those that run."""
    if attempt is None:
        return DesiredAttempt.GONE
    return DesiredAttempt.RUN if attempt.asked is None else DesiredAttempt.END


def observed(
    attempt: Attempt | None, job: Object | None, pods: Sequence[Object], view: View | None
) -> ObservedAttempt:
    """What the cluster has of an attempt: its Job, its pods, and what these say, if any."""
    if view is None:
        return (
            ObservedAttempt.LOST
            if attempt is not None and (attempt.seen or attempt.running)
            else ObservedAttempt.ABSENT
        )
    if isinstance(view, Ended):
        return ObservedAttempt.ENDED
    stopped = attempt is not None and attempt.stopped
    if job is None or (stopped and not _overlooked(job, pods)):
        return ObservedAttempt.STOPPING
    if "deletionTimestamp" in job["metadata"]:
        return ObservedAttempt.DELETED
    return ObservedAttempt.RUNNING if isinstance(view, RunningJob) else ObservedAttempt.STARTING


def _overlooked(job: Object, pods: Sequence[Object]) -> bool:
    """Whether a Job is deleted and its pods stay, for as long as it has our finalizer: somebody deleted it in
    background, or the garbage collector did not know of the pod yet and found nothing to wait for."""
    metadata = job["metadata"]
    deleted = "deletionTimestamp" in metadata and FOREGROUND not in (metadata.get("finalizers") or ())
    return deleted and any("deletionTimestamp" not in pod["metadata"] for pod in pods)
