"""The table of reasons to wait: what each means and what the user can do. Also why a job ended.

The command line, the pages and docs/submit-jobs.md use this table; `python -m gpupool.queue.domain.reasons`
prints it for the docs, and a test compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gpupool.queue.records import FailedParent, Job, JobState, WaitReason


class Words(NamedTuple):
    meaning: str
    remediation: str
    """What the job's user can do."""


REASONS: Mapping[WaitReason, Words] = {
    WaitReason.CAPACITY: Words("no node has enough free slots", "wait, or ask for another pool"),
    WaitReason.EXCLUSIVE: Words(
        "no node is empty, or exclusive jobs occupy the nodes", "wait, or submit it as shared"
    ),
    WaitReason.SPOT_SHARE: Words(
        "the nodes on which the pool's spot share places the job are full",
        "wait; preemptible jobs can also run on spot nodes",
    ),
    WaitReason.RESERVATION: Words(
        "the capacity is reserved for a job that has waited for `reserveAfter`",
        "wait, or lower timeout_seconds: a job that ends before the reserved job starts need not wait",
    ),
    WaitReason.TENANT_LIMIT: Words(
        "the tenant uses its whole grant, or has reached its limit of running jobs",
        "wait for the tenant's jobs to end, cancel some, or have its `pools` or `limits` raised",
    ),
    WaitReason.BUDGET: Words(
        "the remaining budget is less than the job may cost",
        "wait for running jobs to end or for the next period, or lower timeout_seconds",
    ),
    WaitReason.UNSCHEDULABLE: Words(
        "the job can't start even if all other jobs end: its pool or tenant no longer exists, or its grant, "
        "pool or budget is too small",
        "change the field that the detail names, or cancel the job and submit it again",
    ),
    WaitReason.BACKOFF: Words("the last attempt failed, and the next one is delayed", "wait"),
    WaitReason.DEPENDENCY: Words(
        "a job or an array that it depends on has not ended", "see why that one waits"
    ),
    WaitReason.QUEUED: Words(
        "jobs of the same tenant with the same request go first", "wait; see why the first of them waits"
    ),
    WaitReason.NODE: Words(
        "scheduled; its pod has no node yet: the message of the scheduler or of Karpenter",
        "wait, or ask the operators",
    ),
    WaitReason.STARTING: Words("scheduled; its container is starting", "wait"),
    WaitReason.IMAGE: Words(
        "scheduled; its image can't be pulled", "check the image's name and its pull secret"
    ),
    WaitReason.REFUSED: Words(
        "scheduled; an admission policy or a quota of the cluster rejects its Job or pod",
        "change the field that the policy names, or ask the operators",
    ),
    WaitReason.CLUSTER: Words(
        "the queue can't reach its cluster, or another queue has taken it over", "wait, or ask the operators"
    ),
    WaitReason.NODE_UNREACHABLE: Words(
        "its node is unreachable; no other attempt starts until the node is back, deleted, or out of service",
        "wait, or ask the operators",
    ),
    WaitReason.TERMINATING: Words("it was asked to stop, and its pod is still terminating", "wait"),
}


def remediation(code: str) -> str | None:
    """What to do about a reason, as the API names it; None for one that this version does not know."""
    return REASONS[WaitReason(code)].remediation if code in set(WaitReason) else None


def of_bound(bound: str) -> str:
    """What is reserved: `bound` as `gpupool.queue.domain.reservations` names it."""
    pool, separator, tenant = bound.partition("/")
    if not separator:
        return f"pool {pool}"
    return f"{tenant}'s grant on {pool}" if pool else f"{tenant}'s next running job"


_ENDED = {JobState.FAILED: "failed", JobState.CANCELLED: "was cancelled", JobState.EXPIRED: "expired"}


def of_dependency(cause: FailedParent) -> str:
    """Why a job was cancelled that depends on others."""
    ended = _ENDED[cause.state] + (f" ({cause.reason})" if cause.reason else "")
    if cause.parent == cause.job:
        return f"job {cause.parent}, on which it depends, {ended}"
    return f"job {cause.parent}, on which it depends, was cancelled because job {cause.job} {ended}"


def of_end(job: Job) -> str | None:
    """Why a job ended as it did."""
    return of_dependency(job.cause) if job.cause else job.reason


def table() -> str:
    """The table of docs/submit-jobs.md."""
    rows = [f"| `{reason}` | {words.meaning} | {words.remediation} |" for reason, words in REASONS.items()]
    return "\n".join(["| reason | what it means | what to do |", "|---|---|---|", *rows]) + "\n"


if __name__ == "__main__":
    print(table(), end="")
