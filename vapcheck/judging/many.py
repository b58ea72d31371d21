"""Judges many objects, on several processors where that is faster.

CEL in Python holds one processor. A bundle of tens of thousands of judgements is therefore split among forked
processes, which share what was read and compiled; each of them costs memory, so that there is one for so much
work, however many processors there are. It decides nothing itself (see `judge`).
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from vapcheck.judging.judge import Judge
from vapcheck.judging.request import User
from vapcheck.judging.tally import Tally
from vapcheck.manifests.documents import Document
from vapcheck.outcome import PolicyFinding

WORTH_IT = 25_000
"""Objects times policies from which one more process is well worth what it costs: 30 ms, for 0.4 s of work,
and some 30 MiB of its own, because counting references copies much of what processes share."""


_judge: Judge
_documents: Sequence[Document]
"""Inherited by the forked processes, because neither survives being sent."""


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
        # Forking a process with several threads may inherit a lock that is never released.
        processors = len(os.sched_getaffinity(0)) if _can_fork() else 1
        processes = processes_for(len(documents) * len(judge.tally.matched), processors)
    if processes <= 1:
        return [
            finding
            for document in documents
            for finding in judge.judge(document, operation=operation, user=user, subresource=subresource)
        ]
    global _judge, _documents
    _judge, _documents = judge, documents
    gc.freeze()  # so that no collection writes to, and thereby copies, what the processes share
    size = -(-len(documents) // processes)
    starts = range(size, len(documents), size)
    fork = multiprocessing.get_context("fork")
    try:
        with ProcessPoolExecutor(processes - 1, mp_context=fork) as pool:
            asked: dict[str, Any] = {
                "operation": operation,
                "user": user,
                "subresource": subresource,
                "processes": 1,
            }
            theirs = pool.map(_share, [(start, start + size, asked) for start in starts])
            # This process would only wait, and its memory is there anyway.
            findings = judge_many(judge, documents[:size], **asked)
            shares = list(theirs)
    finally:
        gc.unfreeze()
    for found, tally in shares:
        judge.tally.absorb(tally)
        findings += found
    return findings


def processes_for(judgements: int, processors: int) -> int:
    """How many processes so many judgements (objects times policies) are given."""
    return max(1, min(processors, 1 + judgements // WORTH_IT))


def _can_fork() -> bool:
    return hasattr(os, "fork") and hasattr(os, "sched_getaffinity") and threading.active_count() == 1


def _share(part: tuple[int, int, dict[str, Any]]) -> tuple[list[PolicyFinding], Tally]:
    start, end, asked = part
    _judge.tally = _judge.new_tally()  # one process may get two parts
    found = judge_many(_judge, _documents[start:end], **asked)
    return found, _judge.tally
