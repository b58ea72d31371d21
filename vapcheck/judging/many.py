"""Judges many objects, on several processors where that is faster.

CEL in Python holds one processor. A bundle of tens of thousands of judgements is therefore split among forked
processes, which share what was read and compiled; each of them costs memory, so that there is one for so much
work, however many processors there are. It decides nothing itself (see `judge`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from vapcheck import forked
from vapcheck.judging.judge import Judge
from vapcheck.judging.request import User
from vapcheck.judging.tally import Tally
from vapcheck.manifests.documents import Document
from vapcheck.outcome import PolicyFinding

WORTH_IT = 25_000
"""Objects times policies from which one more process is well worth what it costs: 20 ms, for 0.4 s of work,
and some 30 MiB of its own, because counting references copies much of what processes share."""


def judge_many(
    judge: Judge,
    documents: Sequence[Document],
    *,
    operation: str,
    user: User,
    subresource: str = "",
    processes: int | None = None,
) -> list[PolicyFinding]:
    """Every finding about the documents, in their order; the judge's counts are brought up to date.

    `processes`: how many to use, this one included; by default see `processes_for`.
    """
    if processes is None:
        processes = processes_for(len(documents) * len(judge.tally.matched), forked.processors())
    size = -(-len(documents) // processes) or 1
    shares = [documents[start : start + size] for start in range(0, len(documents), size)]
    work: list[Callable[[], tuple[list[PolicyFinding], Tally]]] = [
        partial(_share, judge, share, operation, user, subresource) for share in shares
    ]
    # Without a share this process would only wait, and its memory is there anyway.
    work[1:] = [forked.start(part) for part in work[1:]]
    findings: list[PolicyFinding] = []
    for part in work:
        found, tally = part()
        judge.tally.absorb(tally)
        findings += found
    return findings


def processes_for(judgements: int, processors: int) -> int:
    """How many processes so many judgements (objects times policies) are given."""
    return max(1, min(processors, 1 + judgements // WORTH_IT))


def _share(
    judge: Judge, documents: Sequence[Document], operation: str, user: User, subresource: str
) -> tuple[list[PolicyFinding], Tally]:
    """The findings about these documents, and what was counted for them alone."""
    before, judge.tally = judge.tally, judge.new_tally()
    findings = [
        finding
        for document in documents
        for finding in judge.judge(document, operation=operation, user=user, subresource=subresource)
    ]
    counted, judge.tally = judge.tally, before
    return findings, counted
