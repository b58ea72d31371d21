"""What Karpenter finds of the reservations that the file names, and until when.

Source: status.capacityReservations of the EC2NodeClass (karpenter-provider-aws v1.14.1, CRD). A reservation
that no file names is not among them: nothing here can see it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from gpupool.environment.plan.changes import wording
from gpupool.environment.plan.model import Pool, Reserved
from gpupool.findings import Category
from gpupool.live.drift.drift import Drift
from gpupool.live.drift.drift_input import DriftInput

_API_VERSION, _KIND = "karpenter.k8s.aws/v1", "EC2NodeClass"


def check(inputs: DriftInput) -> Iterator[Drift]:
    for pool in inputs.plan.pools:
        live = inputs.snapshot.find(_API_VERSION, _KIND, pool.name) if pool.reserved else None
        status = (live or {}).get("status") or {}
        if status.get("conditions"):  # Karpenter has looked
            there = {row["id"]: row for row in status.get("capacityReservations") or ()}
            for row in pool.reserved:
                yield from _of(inputs, pool, row, there)


def _of(
    inputs: DriftInput, pool: Pool, row: Reserved, there: Mapping[str, Mapping[str, Any]]
) -> Iterator[Drift]:
    name = wording.reservation_name(row)
    if (row.id not in there) if row.id else not there:
        ended = row.until is not None and row.until < inputs.now
        yield _drift(
            pool,
            "reservation-missing",
            f"Karpenter finds no reservation {name}" + (", which is over" if ended else ""),
            "remove it from the file" if ended else "aws ec2 describe-capacity-reservations, and correct it",
            Category.warning if ended else Category.drift,
        )
        return
    end = there.get(row.id or "", {}).get("endTime")
    ends = datetime.fromisoformat(end) if end else None
    if ends is not None and (row.until is None or ends < row.until):
        says = f"{row.until:%Y-%m-%d %H:%M} UTC" if row.until else "no end"
        when = ends.astimezone(UTC)
        yield _drift(
            pool,
            "reservation-ends",
            f"reservation {name} ends {when:%Y-%m-%d %H:%M} UTC, and the file says {says}: jobs would "
            "run longer",
            f"write until: {when:%Y-%m-%dT%H:%M}Z",
            Category.drift,
        )


def _drift(pool: Pool, kind: str, reason: str, remediation: str, category: Category) -> Drift:
    return Drift(
        layer="karpenter",
        code=kind,
        object=f"{_KIND} {pool.name}",
        path="status.capacityReservations",
        what=f"{reason} (pool {pool.name})",
        remediation=remediation,
        category=category,
    )
