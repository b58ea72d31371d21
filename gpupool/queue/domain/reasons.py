"""The one table of why jobs wait, in words: what each reason means, and what to do. And why a job ended.

The command line, the pages and docs/queue.md show these words; `python -m gpupool.queue.domain.reasons`
prints them as the table of the docs, and a test compares.
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
        "no node is empty, or exclusive jobs hold the nodes", "wait, or submit it as shared"
    ),
    WaitReason.SPOT_SHARE: Words(
        "the job would move the pool away from its share of spot nodes",
        "wait; a preemptible job may be on spot nodes",
    ),
    WaitReason.RESERVATION: Words(
        "what it needs is kept for a job that has waited for `reserveAfter`",
        "wait, or lower timeout_seconds: what ends before that job starts may pass",
    ),
    WaitReason.TENANT_LIMIT: Words(
        "the tenant holds what it is granted, or has as many jobs running as it may",
        "wait for the tenant's own jobs, cancel some, or have its `pools` or `limits` raised",
    ),
    WaitReason.BUDGET: Words(
        "the money that is left does not suffice for what the job may cost",
        "wait for jobs that hold money or for the next period, or lower timeout_seconds",
    ),
    WaitReason.NOT_POSSIBLE: Words(
        "no end of other jobs lets it start: its pool or tenant is gone, its grant, pool or budget too small",
        "change what it names, or cancel the job and submit it again",
    ),
    WaitReason.BACKOFF: Words("it failed, and is tried again later", "wait"),
    WaitReason.DEPENDENCY: Words(
        "a job or an array that it comes after is not over", "see why that one waits"
    ),
    WaitReason.TURN: Words("like jobs of the same tenant go first", "wait; see why the first of them waits"),
    WaitReason.NODE: Words(
        "dispatched; its pod has no node yet: what the scheduler or Karpenter says",
        "wait, or ask the operators",
    ),
    WaitReason.STARTING: Words("dispatched; its container starts", "wait"),
    WaitReason.IMAGE: Words(
        "dispatched; its image can't be pulled", "check the image's name and its pull secret"
    ),
    WaitReason.REFUSED: Words(
        "dispatched; a policy or a quota of the cluster refuses its Job or pod",
        "change what the policy names, or ask the operators",
    ),
    WaitReason.CLUSTER: Words(
        "the queue can't reach its cluster, or works on it no longer", "wait, or ask the operators"
    ),
    WaitReason.NODE_UNREACHABLE: Words(
        "its node does not answer: nothing starts elsewhere until it is back, deleted, or out of service",
        "wait, or ask the operators",
    ),
    WaitReason.ENDING: Words("it is to stop, and its pod has not ended yet", "wait"),
}


def remediation(code: str) -> str | None:
    """What to do about a reason, as the API names it; None for one that this version does not know."""
    return REASONS[WaitReason(code)].remediation if code in set(WaitReason) else None


def of_bound(bound: str) -> str:
    """What is reserved: `bound` as `gpupool.queue.domain.reservations` names it."""
    pool, separator, tenant = bound.partition("/")
    if not separator:
        return f"pool {pool}"
    return f"what {tenant} is granted of {pool}" if pool else f"the next start of a job of {tenant}"


_ENDED = {JobState.FAILED: "failed", JobState.CANCELLED: "was cancelled", JobState.EXPIRED: "expired"}


def of_dependency(cause: FailedParent) -> str:
    """Why a job was cancelled that came after others."""
    ended = _ENDED[cause.state] + (f" ({cause.reason})" if cause.reason else "")
    if cause.parent == cause.job:
        return f"job {cause.parent}, which it comes after, {ended}"
    return f"job {cause.parent}, which it comes after, was cancelled because job {cause.job} {ended}"


def of_end(job: Job) -> str | None:
    """Why a job ended as it did."""
    return of_dependency(job.cause) if job.cause else job.reason


def table() -> str:
    """The table of docs/queue.md."""
    rows = [f"| `{reason}` | {words.meaning} | {words.remediation} |" for reason, words in REASONS.items()]
    return "\n".join(["| reason | what it means | what to do |", "|---|---|---|", *rows]) + "\n"


if __name__ == "__main__":
    print(table(), end="")
