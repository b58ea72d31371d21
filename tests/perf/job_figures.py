"""Jobs on Kubernetes, side by side on one control plane: created directly, through Kueue, through our queue.

All of them end on the same fake nodes, in the same namespaces, and what is created directly is what the queue
creates (`direct_jobs`), so that the figures compare queues and not manifests. They are measured without
policies and quotas, as the figures of Kueue were that the bounds come from; what those cost is measured
afterwards. What is compared is printed; what is held to is expectations.yaml.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from tests.perf import kueue, our_queue
from tests.perf.direct_jobs import directly
from tests.perf.job_cluster import (
    GPU,
    GPUS,
    NODES,
    Cluster,
    Measured,
    Submit,
    cluster,
    median,
    percentile,
)

BURST = 1000
PACED, PER_SECOND = 300, 10.0
TIMES = 3
"""The machine may be half as fast minutes later: what is compared with a burst is what ran beside it."""
Figure = tuple[str, float]


def side_by_side(folder: Path) -> Iterator[Figure]:
    """Every figure of Jobs; Kueue is built first where it is not yet."""
    kueue.program()
    with cluster(_new(folder, "plain"), enforced=False) as made:
        bare_jobs = directly(made)
        bare, bare_paced = _measure("created directly", made, bare_jobs)
        with kueue.running(made.plane, folder, _quota(), made.namespaces) as pid:
            labels = {kueue.QUEUE_LABEL: kueue.QUEUE}
            through = directly(made, labels, suspend=True)
            theirs, _ = _measure("through Kueue", made, through, pid)
        with our_queue.running(made, folder) as queue:
            ours, ours_paced = _measure("through gpupool's queue", made, queue.submit, *queue.pids())
            arrays = _arrays(made, queue)
            queue.fill()
            deep, deep_paced = _measure("the same, 10,000 queued", made, queue.submit, *queue.pids())
        together = [(bare, ours, arrays), *(_together(made, folder, bare_jobs) for _ in range(TIMES - 1))]
    with cluster(_new(folder, "enforced"), enforced=True) as made:
        bare_enforced = _burst("directly, with policies", made, directly(made))
        with our_queue.running(made, folder) as queue:
            ours_enforced = _burst("through the queue, with policies", made, queue.submit, *queue.pids())
    created = _p99(bare_paced, "asked", "created")
    per_second = median([ours.per_second for _, ours, _ in together])
    yield "jobs-against-kueue", theirs.per_second / per_second
    yield "jobs-against-bare", median([bare.per_second / ours.per_second for bare, ours, _ in together])
    yield "arrays-against-bare", median([bare.per_second / arrays.per_second for bare, _, arrays in together])
    yield "jobs-enforced-against-bare", bare_enforced.per_second / ours_enforced.per_second
    yield "jobs-cpu", median([ours.cpu_ms for _, ours, _ in together])
    yield "jobs-paced-p99", _p99(ours_paced, "accepted", "created") / created
    yield (
        "jobs-queued-10000",
        max(
            ours.per_second / deep.per_second,
            deep.cpu_ms / ours.cpu_ms,
            _p99(deep_paced, "accepted", "created") / _p99(ours_paced, "accepted", "created"),
        ),
    )


def _together(made: Cluster, folder: Path, bare_jobs: Submit) -> tuple[Measured, Measured, Measured]:
    """A burst created directly, one through our queue, and one in arrays, one after the other."""
    bare = _burst("created directly", made, bare_jobs)
    with our_queue.running(made, folder) as queue:
        ours = _burst("through gpupool's queue", made, queue.submit, *queue.pids())
        return bare, ours, _arrays(made, queue)


def _arrays(made: Cluster, queue: our_queue.OurQueue) -> Measured:
    title = f"the same in arrays of {our_queue.ARRAY}"
    return _burst(title, made, queue.submit_array, *queue.pids(), requests=BURST // our_queue.ARRAY)


def _measure(title: str, made: Cluster, submit: Submit, *others: int) -> tuple[Measured, Measured]:
    """A burst and a paced run, printed."""
    burst = _burst(title, made, submit, *others)
    paced = made.run(submit, PACED, PER_SECOND, others)
    said = ", ".join(
        f"{name} {median(each):.0f}/{percentile(each, 0.99):.0f}"
        for name, then in (("created", "created"), ("admitted", "unsuspended"), ("bound", "bound"))
        if (each := paced.seen.between("asked", then))
    )
    _print(f"{title}: paced {PER_SECOND:.0f}/s, p50/p99 ms to {said}")
    return burst, paced


def _burst(title: str, made: Cluster, submit: Submit, *others: int, requests: int = BURST) -> Measured:
    burst = made.run(submit, requests, None, others)
    slow = burst.seen.between("asked", "bound")
    _print(
        f"{title}: {burst.per_second:.0f} bound/s in a burst of {BURST} (p50/p99 {median(slow):.0f}/"
        f"{percentile(slow, 0.99):.0f} ms), {burst.cpu_ms:.1f} ms CPU a Job"
    )
    return burst


def _print(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _new(folder: Path, name: str) -> Path:
    made = folder / name
    made.mkdir()
    return made


def _p99(measured: Measured, first: str, then: str) -> float:
    return percentile(measured.seen.between(first, then), 0.99)


def _quota() -> dict[str, int]:
    return {GPU: NODES * GPUS, "cpu": 10_000, "memory": 10**13}
