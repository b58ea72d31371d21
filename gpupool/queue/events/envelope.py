"""A job's event as it leaves the queue, the same on the bus and over HTTP (CloudEvents' names).

This module must not send anything.
"""

from __future__ import annotations

from typing import Any

from gpupool.queue.records import JobEvent


def subject(prefix: str, event: JobEvent) -> str:
    """`<prefix>.<type>`; a dispatched event names the GPU and the isolation as well, unless it is for MIG."""
    name = f"{prefix}.{event.type}"
    key = event.data.get("key") if event.type == "dispatched" else None
    if key is None:
        return name
    return f"{name}.mig" if key == "mig" else f"{name}.{key}.{event.data.get('isolation', 'shared')}"


def envelope(environment: str, prefix: str, event: JobEvent) -> dict[str, Any]:
    """The event with its surroundings; `type` is the subject that it is published under."""
    return {
        "id": event.id,
        "source": f"gpupool/{environment}",
        "type": subject(prefix, event),
        "subject": event.job,
        "time": event.at.isoformat().replace("+00:00", "Z"),
        "tenant": event.tenant,
        "project": event.project,
        "pool": event.pool,
        "seq": event.seq,
        "data": dict(event.data),
    }
