"""`gpupool jobs` where there is no queue, and what is wrong before one is asked."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpupool.cli import jobs
from gpupool.cli.jobs_text import print_jobs, print_timeline
from gpupool.cli.main import _asks_for_json, _own, _refuse_empty
from gpupool.client import Event, Job
from gpupool.findings import UsageError
from tests.unit.cli.test_environments import gpupool


def test_no_queue_is_said_with_what_to_do() -> None:
    done = gpupool("jobs", "list", "--server", "http://127.0.0.1:1", "--format", "json")
    assert done.returncode == 1
    (message,) = json.loads(done.stdout)["errors"]
    assert message.startswith("GET /api/v1/gpu-jobs: no answer from the queue: ")
    assert message.endswith("start the queue with `gpupool serve`, or set GPUPOOL_URL")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--timeout", "4"), "--timeout 4: write a duration such as 90m, 4h or 1h30m"),
        (("--env", "A"), "--env A: write NAME=VALUE"),
        (("--request", "/nothing"), "/nothing: No such file or directory; name a file with JSON"),
        (("--name", ""), "the last argument is empty"),
    ],
)
def test_wrong_use(arguments: tuple[str, str], message: str) -> None:
    done = gpupool("jobs", "submit", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


@pytest.mark.parametrize(("text", "seconds"), [("90m", 5400), ("1d", 86400), ("1h30m", 5400), (None, None)])
def test_durations(text: str | None, seconds: int | None) -> None:
    assert jobs._seconds(text) == seconds


def test_what_follows_two_dashes_is_the_jobs_own() -> None:
    arguments = ["jobs", "submit", "--", "echo", "", "--format", "json"]
    assert _own(arguments) == ["jobs", "submit"]
    _refuse_empty(_own(arguments))
    assert not _asks_for_json(_own(arguments))
    with pytest.raises(UsageError):
        _refuse_empty(_own(["jobs", "submit", ""]))


def test_a_timeline_shows_what_happened_in_its_order(capsys: pytest.CaptureFixture[str]) -> None:
    """Kubernetes says in whole seconds since when a container runs: earlier than its Job was made."""
    begin = datetime(2026, 1, 1, 12, 0, 0, 400_000, tzinfo=UTC)

    def event(kind: str, seconds: float, **change: object) -> Event:
        at = begin + timedelta(seconds=seconds)
        type = f"mlops.gpu.jobs.{kind}"
        return Event(id=kind, type=type, job="", seq=1, tenant="", time=at, pool="training", change=change)

    print_timeline(
        [
            event("enqueued", 0),
            event("dispatched.t4.shared", 0.2, capacity_type="spot"),
            event("launched", 0.3, kubernetes_job="gp-1"),
            event("started", -0.4, node="node-0", node_at="2026-01-01T12:00:00+00:00"),
            event("succeeded", 0.6, cost_micro=1_500),
        ]
    )
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert [row[0] for row in rows] == ["accepted", "decided", "Job", "node", "running", "succeeded"]
    times = [float(next(word for word in row if word[0].isdigit())) for row in rows]
    assert times == [0.0, 0.2, 0.3, 0.3, 0.3, 0.6]
    assert rows[-1][-2:] == ["0.001500", "USD"]


def test_a_list_cuts_long_reasons_between_words(capsys: pytest.CaptureFixture[str]) -> None:
    fields: dict[str, Any] = dict.fromkeys(field.name for field in dataclasses.fields(Job))
    fields |= {"id": "a", "job_name": "b", "tenant": "c", "priority": "low", "cost_usd": 0.0, "waiting": None}
    print_jobs([Job(**fields | {"reason": "its image can't be pulled " * 10})])
    (line,) = capsys.readouterr().out.splitlines()[1:]
    assert line.endswith("its image can't be ...")
