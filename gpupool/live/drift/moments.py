"""Times in objects: for how long something has been so."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from gpupool.live.cluster.snapshot import Object


def age(thing: Object, now: datetime) -> float:
    """Seconds since the object was made."""
    return since(thing["metadata"].get("creationTimestamp"), now)


def since(moment: Any, now: datetime) -> float:
    """Seconds since a time as Kubernetes writes it; 0 where there is none."""
    if not isinstance(moment, str):
        return 0.0
    try:
        then = datetime.fromisoformat(moment)
    except ValueError:
        return 0.0
    return max(0.0, (now - then.astimezone(UTC)).total_seconds())


def going(thing: Object) -> bool:
    """Whether the object is being deleted."""
    return bool(thing["metadata"].get("deletionTimestamp"))


def duration(seconds: float) -> str:
    """Seconds as people say them: 40 s, 12 min, 5 h, 3 days."""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
