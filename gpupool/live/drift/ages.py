"""Ages of objects and conditions, in seconds, and how they are worded."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from gpupool.live.cluster.snapshot import Object


def age(thing: Object, now: datetime) -> float:
    """Seconds since the object was created; 0 if unknown, so that an object without a time never counts as
    late."""
    return seconds_since(thing["metadata"].get("creationTimestamp"), now)


def seconds_since(moment: Any, now: datetime) -> float:
    """Seconds since a time as Kubernetes writes it; 0 if there is none, or if it lies ahead."""
    if not isinstance(moment, str):
        return 0.0
    try:
        then = datetime.fromisoformat(moment)
    except ValueError:
        return 0.0
    return max(0.0, (now - then.astimezone(UTC)).total_seconds())


def is_being_deleted(thing: Object) -> bool:
    """Whether the object has been deleted and waits for its finalizers or its grace period."""
    return bool(thing["metadata"].get("deletionTimestamp"))


def duration(seconds: float) -> str:
    """A duration in the largest unit of which it has at least two: 90 s, 12 min, 5 h, 3 days."""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
