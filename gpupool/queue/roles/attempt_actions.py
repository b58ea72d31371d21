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
from gpupool.queue.kubernetes.observe import Ended, Running, View
from gpupool.queue.roles.attempt import Attempt

FOREGROUND = "foregroundDeletion"
"""The finalizer of an object that waits for its dependents' deletion (Kubernetes, Garbage Collection)."""


class Desired(Enum):
    """What is to become of an attempt."""

    RUN = auto()
    """It is to run until it ends by itself."""
    END = auto()
    """It is to stop, and how it then ends is known."""
    GONE = auto()
    """It is not among those that run: nothing of it is to be in the cluster."""


class Observed(Enum):
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


class Action(Enum):
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


ACTIONS: Mapping[tuple[Desired, Observed], Action] = {
    (Desired.RUN, Observed.ABSENT): Action.CREATE,
    (Desired.RUN, Observed.LOST): Action.RECORD,  # our finalizer was taken off: it is not wanted again
    (Desired.RUN, Observed.STARTING): Action.WAIT,
    (Desired.RUN, Observed.RUNNING): Action.WAIT,
    (Desired.RUN, Observed.DELETED): Action.STOP,  # it can't go on, and what is left holds GPUs
    (Desired.RUN, Observed.STOPPING): Action.WAIT,
    (Desired.RUN, Observed.ENDED): Action.RECORD,
    (Desired.END, Observed.ABSENT): Action.RECORD,
    (Desired.END, Observed.LOST): Action.RECORD,
    (Desired.END, Observed.STARTING): Action.STOP,
    (Desired.END, Observed.RUNNING): Action.STOP,
    (Desired.END, Observed.DELETED): Action.STOP,
    (Desired.END, Observed.STOPPING): Action.WAIT,  # it has not ended while a container may run
    (Desired.END, Observed.ENDED): Action.RECORD,
    (Desired.GONE, Observed.ABSENT): Action.DISCARD,
    (Desired.GONE, Observed.LOST): Action.DISCARD,
    (Desired.GONE, Observed.STARTING): Action.DISCARD,
    (Desired.GONE, Observed.RUNNING): Action.DISCARD,
    (Desired.GONE, Observed.DELETED): Action.DISCARD,
    (Desired.GONE, Observed.STOPPING): Action.DISCARD,
    (Desired.GONE, Observed.ENDED): Action.DISCARD,
}


def desired(attempt: Attempt | None) -> Desired:
    """What is to become of an attempt; None is one that is not among those that run."""
    if attempt is None:
        return Desired.GONE
    return Desired.RUN if attempt.asked is None else Desired.END


def observed(
    attempt: Attempt | None, job: Object | None, pods: Sequence[Object], view: View | None
) -> Observed:
    """What the cluster has of an attempt: its Job, its pods, and what these say, if any."""
    if view is None:
        return Observed.LOST if attempt is not None and (attempt.seen or attempt.running) else Observed.ABSENT
    if isinstance(view, Ended):
        return Observed.ENDED
    stopped = attempt is not None and attempt.stopped
    if job is None or (stopped and not _overlooked(job, pods)):
        return Observed.STOPPING
    if "deletionTimestamp" in job["metadata"]:
        return Observed.DELETED
    return Observed.RUNNING if isinstance(view, Running) else Observed.STARTING


def _overlooked(job: Object, pods: Sequence[Object]) -> bool:
    """Whether a Job is deleted and its pods stay, for as long as it has our finalizer: somebody deleted it in
    background, or the garbage collector did not know of the pod yet and found nothing to wait for."""
    metadata = job["metadata"]
    deleted = "deletionTimestamp" in metadata and FOREGROUND not in (metadata.get("finalizers") or ())
    return deleted and any("deletionTimestamp" not in pod["metadata"] for pod in pods)
