"""The Lease by which a cluster says which database's queue it belongs to, as an object. Pure.

Its holder is the id of the database. An annotation has the latest marks that the database wrote, and each of
them replaces the mark in the database a moment later: a copy of the database, or an older state of it, has a
mark that is no longer among them. Nothing here is timed by it: processes of one database know by their
database which of them leads.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from gpupool.environment.plan.model import SYSTEM_NAMESPACE
from gpupool.environment.plan.pods import LEASE

Object = dict[str, Any]

LEASE_PATH = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/leases/{LEASE}"
MARKS = "gpupool.dev/marks"
KEPT = 4
"""Marks: a standby of the database that is some seconds behind when it takes over is no older state."""


def holder_of(lease: Mapping[str, Any]) -> str:
    """The id of the database whose queue the cluster belongs to; empty where it belongs to none."""
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


def marks_of(lease: Mapping[str, Any]) -> list[str]:
    """The latest first."""
    return str((lease["metadata"].get("annotations") or {}).get(MARKS) or "").split()


def marked(before: Object | None, database: str, mark: str, present: str, now: datetime) -> Object:
    """The Lease with a new mark for a database that has the mark `present` until then. `before`: the Lease
    that is there, if any."""
    held = before is not None and holder_of(before) == database
    others = [other for other in marks_of(before) if other != present] if held and before else []
    at = now.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    spec: Object = dict((before or {}).get("spec") or {})
    if not held:
        spec |= {
            "acquireTime": at,
            "leaseTransitions": int(spec.get("leaseTransitions") or 0) + (before is not None),
        }
    spec |= {"holderIdentity": database, "renewTime": at}
    metadata: Object = dict(before["metadata"]) if before else {"name": LEASE, "namespace": SYSTEM_NAMESPACE}
    metadata["annotations"] = {
        **(metadata.get("annotations") or {}),
        MARKS: " ".join([mark, present, *others][:KEPT]),
    }
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
