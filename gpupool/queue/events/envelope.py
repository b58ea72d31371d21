"""A job's event as observers receive it: an envelope (CloudEvents 1.0), and its JSON.

Pure. The JSON's schema is `gpupool/environment/schema/job-event.schema.json`: the two change together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC
from typing import Any

from gpupool.queue.records import JobEvent


def encoded(envelope: Mapping[str, Any]) -> bytes:
    """The envelope's JSON. ASCII, which no broker or reader misunderstands."""
    return json.dumps(envelope, separators=(",", ":")).encode("ascii")


def _subject(prefix: str, event: JobEvent) -> str:
    """`<prefix>.<type>`; of a dispatched job with the GPU's catalog key and the isolation, or `mig` alone:
    `mlops.gpu.jobs.dispatched.t4.shared`, `mlops.gpu.jobs.dispatched.mig`."""
    name = f"{prefix}.{event.type}"
    key = event.data.get("key") if event.type == "dispatched" else None
    if not key:
        return name
    return f"{name}.mig" if key == "mig" else f"{name}.{key}.{event.data.get('isolation', 'shared')}"


def envelope(environment: str, prefix: str, event: JobEvent) -> dict[str, Any]:
    """The event of an environment with its surroundings, in the keys of the schema; the same on the bus and
    over HTTP. Its `type`, under `prefix` (`queue.eventPrefix` of the file), is the bus's subject as well."""
    return {
        "specversion": "1.0",
        "id": event.id,
        "source": f"gpupool/{environment}",
        "type": _subject(prefix, event),
        "subject": event.job,
        "time": event.at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "datacontenttype": "application/json",
        "tenant": event.tenant,
        "project": event.project,
        "pool": event.pool,
        "seq": event.seq,
        "data": dict(event.data),
    }
