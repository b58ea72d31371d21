"""Rows as records, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from gpupool.queue.records import (
    RENAMED,
    FailedParent,
    Given,
    Job,
    JobEvent,
    JobState,
    Level,
    Offer,
    Placement,
    Waiting,
    WaitReason,
)

_SAME = tuple(
    name
    for name in (field.name for field in fields(Job))
    if name
    not in (
        *("user", "state", "level", "request", "offers", "placement", "waiting", "preempt_reason", "cause"),
        *("depends_on", "depends_on_ended", "dispatched_at"),
    )
)
"""Fields of a job that are columns of the same name and form."""


def job_of(row: Mapping[str, Any]) -> Job:
    waiting, preempt = row["waiting"], row["preempt_reason"]
    return Job(
        user=row["user_name"],
        state=JobState(row["state"]),
        level=Level(row["level"]),
        request=Given(row["request"]),
        offers=offers_of(row["offers"]),
        placement=placement_of(row["placement"]),
        depends_on=tuple(row["depends_on"]),
        depends_on_ended=tuple(row["depends_on_ended"]),
        waiting=waiting_of(waiting) if waiting else None,
        preempt_reason=preempt["reason"] if preempt else None,
        cause=cause_of(row["cause"]),
        # The column keeps its name, so that pods of the version before work on while they are replaced.
        dispatched_at=row["decided_at"],
        **{name: row[name] for name in _SAME},
    )


def event_of(row: Mapping[str, Any]) -> JobEvent:
    return JobEvent(**{field.name: row[field.name] for field in fields(JobEvent)})


def offers_of(given: list[dict[str, Any]]) -> tuple[Offer, ...]:
    return tuple(Offer(**offer) for offer in given)


def placement_of(given: list[list[int]] | None) -> Placement:
    return tuple((node, units) for node, units in given or ())


def cause_of(given: Mapping[str, Any] | None) -> FailedParent | None:
    return FailedParent(**{**given, "state": JobState(given["state"])}) if given else None


def waiting_of(given: Mapping[str, str]) -> Waiting:
    """Pods of release 0.1 write the old names of reasons until they are replaced."""
    reason = given["reason"]
    return Waiting(WaitReason(RENAMED.get(reason, reason)), given["detail"])
