"""A job of a level that preempts, on a pool that a preemptible job fills: on a real control plane."""

from __future__ import annotations

import itertools
from datetime import timedelta

from gpupool.client import Client
from gpupool.client.sync_client import Job
from gpupool.live.cluster.live_objects import condition
from tests.cluster.queue.observer import Observer
from tests.cluster.queue.served import PATIENCE_S, Queue
from tests.cluster.queue.test_runs import STOPS_ONCE, attempts, submit, up

_WHOLE_SECONDS = timedelta(seconds=1)
"""Times of an attempt are worked out from those of its pod, which Kubernetes gives in whole seconds."""


def test_a_critical_job_pushes_out_a_preemptible_one_with_its_grace(
    queue: Queue, vision: Client, observer: Observer
) -> None:
    """The queue does it, once the job has run for a minute, and never the scheduler, which knows neither
    shares nor minimum run times."""
    with queue.client("speech") as speech:
        low = up(submit(speech, STOPS_ONCE, "training", gpu_count=8, priority="low", preemptible=True))
        _gives_way(queue, low, vision)
        assert "got TERM" in list(speech.logs(low.id, attempt=1))
        assert list(speech.logs(low.id, attempt=2)) == ["again"]
    _scheduler_preempted_nothing(observer)


def _gives_way(queue: Queue, low: Job, vision: Client) -> None:
    critical = submit(vision, "echo up", "training", gpu_count=8, priority="critical")
    assert critical.why().waiting.reason == "capacity"
    critical = critical.wait(PATIENCE_S)
    assert critical.state == "succeeded", critical.reason
    low = low.wait(PATIENCE_S)
    assert (low.state, low.attempt, low.failures, low.disruptions) == ("succeeded", 2, 0, 1), low.reason
    first, second = attempts(queue, low)
    (only,) = attempts(queue, critical)
    assert (first["outcome"], second["outcome"], only["outcome"]) == ("preempted", "succeeded", "succeeded")
    assert first["reason"] == "preempted for a job of level critical"
    times = [first["finished_at"], only["started_at"], only["finished_at"], second["started_at"]]
    assert all(later >= earlier - _WHOLE_SECONDS for earlier, later in itertools.pairwise(times)), times


def _scheduler_preempted_nothing(observer: Observer) -> None:
    pods = [one for one in observer.seen("Pod") if "gpupool.dev/job" in one.labels]
    classes = {one.thing["spec"]["priorityClassName"] for one in pods}
    assert classes == {"queue-critical-queued.training", "queue-low.training"}
    assert {one.thing["spec"]["preemptionPolicy"] for one in pods} == {"Never"}
    disrupted = {str(condition(one.thing, "DisruptionTarget").get("reason")) for one in pods}
    assert "PreemptionByScheduler" not in disrupted
