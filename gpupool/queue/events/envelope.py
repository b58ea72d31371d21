"""A job's event as observers receive it: its subject, its id, and its JSON (CloudEvents 1.0).

Pure. The JSON's schema is `gpupool/schema/job-event.schema.json`: the two change together.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gpupool.queue.records import JobEvent


@dataclass(frozen=True, slots=True)
class Message:
    """What is published of one event."""

    subject: str
    id: str
    """The event's id, by which a broker and consumers recognise one that is published again."""
    payload: bytes


def message(event: JobEvent, prefix: str, environment: str) -> Message:
    """`event` ready to be published under `prefix` (`queue.eventPrefix` of the environment file)."""
    return Message(subject(event, prefix), event.id, payload(event, prefix, environment))


def subject(event: JobEvent, prefix: str) -> str:
    """`<prefix>.<type>`; of a dispatched job with the GPU's catalog key and the isolation, or `mig` alone:
    `mlops.gpu.jobs.dispatched.t4.shared`, `mlops.gpu.jobs.dispatched.mig`."""
    name = f"{prefix}.{event.type}"
    key = event.data.get("key")
    if event.type != "dispatched" or not key:
        return name
    return f"{name}.mig" if key == "mig" else f"{name}.{key}.{event.data['isolation']}"


def body(event: JobEvent, prefix: str, environment: str) -> dict[str, Any]:
    """The event in the keys of the schema."""
    return {
        "specversion": "1.0",
        "id": event.id,
        "source": f"gpupool/{environment}",
        "type": subject(event, prefix),
        "subject": event.job,
        "time": _time(event.at),
        "datacontenttype": "application/json",
        "tenant": event.tenant,
        "project": event.project,
        "pool": event.pool,
        "seq": event.seq,
        "data": dict(event.data),
    }


def payload(event: JobEvent, prefix: str, environment: str) -> bytes:
    """The event as JSON in ASCII, which no broker or reader misunderstands."""
    return json.dumps(body(event, prefix, environment), separators=(",", ":")).encode("ascii")


def _time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
