"""A job's event as observers receive it: its subject, its id, and its JSON (CloudEvents 1.0).

Pure. The JSON's schema is `gpupool/schema/job-event.schema.json`: the two change together.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from gpupool.queue.records import JobEvent


@dataclass(frozen=True, slots=True)
class Message:
    """What is published of one event."""

    subject: str
    id: str
    """The event's id, by which a broker and consumers recognise one that is published again."""
    payload: bytes


def message(environment: str, prefix: str, event: JobEvent) -> Message:
    """`event` of `environment`, to be published under `prefix` (`queue.eventPrefix` of the file)."""
    # ASCII, which no broker or reader misunderstands.
    text = json.dumps(envelope(environment, prefix, event), separators=(",", ":"))
    return Message(subject(prefix, event), event.id, text.encode("ascii"))


def subject(prefix: str, event: JobEvent) -> str:
    """`<prefix>.<type>`; of a dispatched job with the GPU's catalog key and the isolation, or `mig` alone:
    `mlops.gpu.jobs.dispatched.t4.shared`, `mlops.gpu.jobs.dispatched.mig`."""
    name = f"{prefix}.{event.type}"
    key = event.data.get("key") if event.type == "dispatched" else None
    if not key:
        return name
    return f"{name}.mig" if key == "mig" else f"{name}.{key}.{event.data.get('isolation', 'shared')}"


def envelope(environment: str, prefix: str, event: JobEvent) -> dict[str, Any]:
    """The event with its surroundings, in the keys of the schema; the same on the bus and over HTTP."""
    return {
        "specversion": "1.0",
        "id": event.id,
        "source": f"gpupool/{environment}",
        "type": subject(prefix, event),
        "subject": event.job,
        "time": event.at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "datacontenttype": "application/json",
        "tenant": event.tenant,
        "project": event.project,
        "pool": event.pool,
        "seq": event.seq,
        "data": dict(event.data),
    }
