"""`gpupool jobs` where there is no queue, and what is wrong before one is asked."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gpupool.cli import jobs_values, jobs_words
from gpupool.cli.jobs_asked import message
from gpupool.cli.jobs_text import print_jobs, print_timeline
from gpupool.cli.main import _asks_for_json, _own, _refuse_empty
from gpupool.client import Event, Job
from gpupool.client.errors import error_of
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
        (("--at-most", "4"), "--at-most 4: write a duration such as 90m, 4h or 1h30m"),
        (("--at-most", "4m"), "--at-most bounds how long --wait waits; give --wait with it"),
        (("--env", "A"), "--env A: write NAME=VALUE"),
        (("--request", "/nothing"), "/nothing: No such file or directory; name a file with JSON"),
        (("--name", ""), "the last argument is empty"),
        (("--budget", "nan"), "--budget nan: write an amount of USD such as 2.50"),
        (("--budget", "inf"), "--budget inf: write an amount of USD such as 2.50"),
        (("--server", "http://[::1"), "http://[::1: not an address; give one such as http://localhost:8021"),
        (("--server", "http://ada:secret@queue:abc"), "queue:abc: not an address; give one such as "),
        (("--server", "ada:secret@queue"), "queue: not an address; give one such as "),
        (("--server", "http://localhost:abc"), "http://localhost:abc: not an address; give one such as "),
        (("--tenant", "süd"), "tenant 'süd': has characters other than printable ASCII; give its name or id"),
        (("--idempotency-key", "süd"), "--idempotency-key 'süd': has characters other than printable ASCII"),
    ],
)
def test_wrong_use(arguments: tuple[str, str], message: str) -> None:
    done = gpupool("jobs", "submit", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_key_that_can_not_be_sent_is_wrong_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUPOOL_KEY", "gpk_ü")
    done = gpupool("jobs", "list")
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert "the key has characters" in done.stderr
    assert "gpk_" not in done.stderr


@pytest.mark.parametrize("text", ["NaN", '{"a": [-Infinity]}', "1e999", "[" * 100_000, '{"a"', "\xff"])
def test_a_request_that_is_no_json_is_wrong_use(text: str, tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match=r"request.json: not JSON: ") as error:
        jobs_values.content(file)
    assert len(str(error.value).splitlines()) == 1


GIVEN = {
    "container_image": ("--image", "a b"),
    "gpu_count": ("--gpus", 0),
    "env": ("--env", {"1A": "secret"}),
    "array": ("--array", None),
}


@pytest.mark.parametrize(
    ("type", "detail", "errors", "said"),
    [
        ("tenant-required", "name one in X-Tenant-Id", [], "T: name one in --tenant or GPUPOOL_TENANT"),
        ("unauthenticated", "no key", [], "T: no key; set GPUPOOL_KEY to a valid API key or token"),
        ("invalid-request", "gpu_count 0 is no number", [], "--gpus 0 is no number"),
        (
            "invalid-request",
            "",
            [
                ("#/container_image", "wrong"),
                ("#/gpu_count", "too small"),
                ("#/env/1A/[key]", "wrong"),
                ("#", "Value error, env: only for jobs with container_image"),
                ("query state.0", "wrong"),
                ("header x-tenant-id", "too long"),
                ("path id", "too long"),
            ],
            "--image 'a b': wrong\n--gpus 0: too small\n--env '1A': wrong\n"
            "--env: only for jobs with --image\n--state: wrong\n"
            "--tenant or GPUPOOL_TENANT: too long\nJOB: too long",
        ),
        (
            "policy-refuses",
            "no 'container_image' in spec.env; change container_image of each job of the array",
            [("#/container_image", "one"), ("#/env", "two")],
            "T: no 'container_image' in spec.env; change --image of each job of the array\n  --env: two",
        ),
    ],
)
def test_messages_name_the_options(type: str, detail: str, errors: list[Any], said: str) -> None:
    listed = [{"pointer": pointer, "detail": what} for pointer, what in errors]
    problem = {"type": f"https://gpupool.dev/problems/{type}", "title": "T", "detail": detail}
    assert message(error_of(400, json.dumps(problem | {"errors": listed}).encode()), GIVEN) == said


@pytest.mark.parametrize(("text", "seconds"), [("90m", 5400), ("1d", 86400), ("1h30m", 5400), (None, None)])
def test_durations(text: str | None, seconds: int | None) -> None:
    assert jobs_values.seconds(text) == seconds


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
    assert rows[-1][-2:] == ["0.0015", "USD"]


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        (0.5, "half a GPU"),
        (0.333333, "1/3 of a GPU"),
        (0.428571, "3/7 of a GPU"),
        (0.001667, "1/600 of a GPU"),
        (1, "1 GPU"),
        (4, "4 GPUs"),
    ],
)
def test_shares_of_a_gpu_are_words(amount: float, words: str) -> None:
    assert jobs_words.gpus(amount) == words


def test_events_are_said_in_plain_words() -> None:
    def said(kind: str, **change: object) -> tuple[str, str]:
        type = f"mlops.gpu.jobs.{kind}"
        return jobs_words.happened(
            Event(id="", type=type, job="", seq=1, tenant="", pool="small", change=change)
        )

    decided = {"placement": [[3, 1]], "capacity_type": "spot", "gpu_micro": 500_000}
    money = {"rate_micro": 1_000_000, "hold_micro": 120_000}
    assert said("dispatched.t4.shared", **decided, **money) == (
        "decided",
        "pool small, node 3, spot, half a GPU, 1.00 USD an hour, 0.12 USD held for it",
    )
    several = {"placement": [[0, 2], [1, 2]], "resource": "nvidia.com/mig-1g.10gb", "gpu_micro": 571_428}
    assert "pool small, 4 of 1g.10gb, nodes 0 and 1, 4/7" in said("dispatched.mig", **several)[1]
    again = said("requeued", reason="exit code 7", exit_code=7, cost_micro=20)
    assert again == ("queued again", "exit code 7, 0.00002 USD")
    assert said("preempted", reason="for another job") == ("asked to stop", "for another job")


def test_what_was_decided_is_said_in_plain_words() -> None:
    found = {
        "attempt": 2,
        "decided_at": "2026-01-01T12:00:00Z",
        "pool": "training",
        "resource": "nvidia.com/gpu",
        "capacity_type": "on-demand",
        "placement": [[0, 4]],
        "usd_per_hour": 5.672,
        "hold_usd": 22.688,
        "run_limit_seconds": 14400,
    }
    assert list(jobs_words.decision(found)) == [
        "attempt 2, decided at 2026-01-01 12:00:00 UTC: pool training, node 0, on-demand",
        "  5.67 USD an hour; held for it: 22.69 USD, which pays for 4h",
    ]


def test_a_list_cuts_long_reasons_between_words(capsys: pytest.CaptureFixture[str]) -> None:
    fields: dict[str, Any] = dict.fromkeys(field.name for field in dataclasses.fields(Job))
    fields |= {"id": "a", "job_name": "b", "tenant": "c", "priority": "low", "cost_usd": 0.0, "waiting": None}
    print_jobs([Job(**fields | {"reason": "its image can't be pulled " * 10})])
    (line,) = capsys.readouterr().out.splitlines()[1:]
    assert line.endswith("its image can't be ...")
