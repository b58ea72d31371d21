"""A job that does not use its GPU, on a real control plane, by what a real Prometheus says of its pod."""

from __future__ import annotations

from pathlib import Path

import yaml

from gpupool.client.sync_client import Job
from gpupool.local.control_plane import ControlPlane
from tests.cluster.kube import Kube
from tests.cluster.queue.conftest import ENVIRONMENT
from tests.cluster.queue.served import PATIENCE_S, Queue, serving
from tests.cluster.queue.test_runs import UNTIL_ASKED, attempts, submit, up
from tests.prometheus import Prometheus
from tests.queue.exporter_page import Exporter, Gpu


def test_an_idle_job_is_asked_to_stop_and_fails_with_the_reason(
    kube: Kube, control_plane: ControlPlane, queue_database: str, tmp_path: Path
) -> None:
    exporter = Exporter([])
    prometheus = Prometheus(tmp_path, exporter.jobs())
    spec = yaml.safe_load(ENVIRONMENT.read_text(encoding="utf-8"))
    spec["queue"] = {"idle": {"prometheus": prometheus.url, "for": "10s", "action": "stop"}}
    try:
        with serving(kube, control_plane, spec, queue_database, tmp_path) as queue, queue.client() as vision:
            idle, waits, busy = (
                up(submit(vision, UNTIL_ASKED, **given)) for given in ({}, {"may_idle": True}, {})
            )
            used = {idle: 0, waits: 0, busy: 60}
            exporter.gpus += [
                Gpu(f"GPU-{number}", _pod(queue, job), "queue-vision", util, util / 100)
                for number, (job, util) in enumerate(used.items())
            ]
            ended = idle.wait(PATIENCE_S)
            assert (ended.state, ended.attempt) == ("failed", 1)
            assert ended.reason == "idle: used at most 0.0 % of its GPU for 10 s"
            assert list(ended.logs())[-1] == "got TERM"
            assert [attempt["outcome"] for attempt in attempts(queue, ended)] == ["failed"]
            assert [job.refresh().state for job in (waits, busy)] == ["running", "running"]
    finally:
        prometheus.stop()
        exporter.stop()


def _pod(queue: Queue, job: Job) -> str:
    (pod,) = queue.kube.pods("queue-vision", f"gpupool.dev/job={job.id}")
    return str(pod["metadata"]["name"])
