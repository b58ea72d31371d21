"""`gpupool jobs` where there is no queue, and what is wrong before one is asked."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gpupool.cli.main import _format, _own, _refuse_empty
from gpupool.cli.queue.jobs import job_file, values, words
from gpupool.cli.queue.jobs.connection import message
from gpupool.cli.queue.jobs.options import COMMAND, OPTIONS, given
from gpupool.cli.queue.jobs.printing import NARROWEST, print_jobs, print_timeline
from gpupool.client import Event, Job, JobSpec
from gpupool.client.errors import error_of
from gpupool.client.values import JobFilter
from gpupool.environment.schema import published
from gpupool.findings import UsageError
from gpupool.queue.api.openapi import job_schema
from gpupool.queue.api.requests import CancelRequest, JobRequest
from tests.cli.test_environments import gpupool


def test_no_queue_is_said_with_what_to_do() -> None:
    done = gpupool("jobs", "list", "--server", "http://127.0.0.1:1", "--format", "json")
    assert done.returncode == 3
    (message,) = json.loads(done.stdout)["errors"]
    assert message.startswith("GET /api/v1/gpu-jobs: no answer from the queue: ")
    assert message.endswith("start the queue with `gpupool serve`, or set GPUPOOL_URL")


def test_advice_fits_a_queue_elsewhere() -> None:
    done = gpupool("jobs", "list", "--server", "https://ada:secret@queue.invalid")
    assert (done.returncode, done.stdout) == (3, "")
    assert "https://queue.invalid was asked for" in done.stderr
    assert "check the address (--server or GPUPOOL_URL)" in done.stderr
    assert "gpupool serve" not in done.stderr
    assert "secret" not in done.stderr


@pytest.mark.parametrize(
    "proxy", ["http://ada:secret@proxy:abc", "ftp://ada:secret@proxy", "socks5://a:secret@b"]
)
def test_a_proxy_that_can_not_be_used_is_said_without_its_password(
    monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    done = gpupool("jobs", "list", "--server", "https://queue.invalid")
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert "HTTPS_PROXY" in done.stderr
    assert "sec" not in done.stderr.replace("seconds", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--timeout", "4"), "--timeout 4: write a duration such as 90m, 4h or 1h30m"),
        (("--at-most", "4"), "--at-most 4: write a duration such as 90m, 4h or 1h30m"),
        (("--at-most", "4m"), "--at-most bounds how long --wait waits; give --wait with it"),
        (("--env", "A"), "--env A: write NAME=VALUE"),
        (("--env", "A=1", "--env", "B=2", "--env", "A=3"), "--env A is given twice; give it once"),
        (("--env-from-secret", "s", "--env-from-secret", "s"), "--env-from-secret s is given twice"),
        (("--after", "a", "--after", "a"), "--after a is given twice"),
        (("--name", "a", "--name", "b"), "--name is given twice; give it once"),
        (("--preemptible", "--not-preemptible"), "--preemptible/--not-preemptible is given twice"),
        (("--volume", "data"), "--volume data: write CLAIM:PATH, or CLAIM:PATH:ro"),
        (("--volume", "data:/a:rw"), "--volume data:/a:rw: write CLAIM:PATH, or CLAIM:PATH:ro"),
        (("--volume", "a:/data", "--volume", "b:/data"), "--volume /data is given twice"),
        (("--deadline", "soon"), "--deadline soon: write a duration such as"),
        (("--request", "/nothing"), "/nothing: No such file or directory; name a file with JSON"),
        (("--name", ""), "the last argument is empty"),
        (("--budget", "nan"), "--budget nan: write an amount of USD such as 2.50"),
        (("--budget", "inf"), "--budget inf: write an amount of USD such as 2.50"),
        (("--server", "http://[::1"), "http://[::1: not an address; give one such as http://localhost:8021"),
        (("--server", "http://ada:secret@queue:abc"), "queue:abc: not an address; give one such as "),
        (("--server", "ada:secret@queue"), "queue: not an address; give one such as "),
        (("--server", "http://ada:secret%40queue:abc"), "queue:abc: not an address; give one such as "),
        (("--server", "http://ada:secret\uff20queue:abc"), "queue:abc: not an address; give one such as "),
        (("--server", "http://localhost:abc"), "http://localhost:abc: not an address; give one such as "),
        (("--tenant", "süd"), "tenant 'süd': has characters other than printable ASCII; give its name or id"),
        (("--idempotency-key", "süd"), "--idempotency-key 'süd': has characters other than printable ASCII"),
    ],
)
def test_wrong_use(arguments: tuple[str, ...], message: str) -> None:
    done = gpupool("jobs", "submit", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "ada" not in done.stderr
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
        values.content(file)
    assert len(str(error.value).splitlines()) == 1


FILE = published.FILE.with_name("job.schema.json")
GIVEN: dict[str, tuple[Any, ...]] = {
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
                ("#", "env: only for jobs with container_image"),
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


@pytest.mark.parametrize(("text", "seconds"), [("90m", 5400), ("1d", 86400), ("1h30m", 5400)])
def test_durations(text: str, seconds: int) -> None:
    assert values.seconds("--timeout", text) == seconds


def test_what_follows_two_dashes_is_the_jobs_own() -> None:
    arguments = ["jobs", "submit", "--", "echo", "", "--format", "json"]
    assert _own(arguments) == ["jobs", "submit"]
    _refuse_empty(_own(arguments))
    assert _format(_own(arguments)) == "text"
    with pytest.raises(UsageError):
        _refuse_empty(_own(["jobs", "submit", ""]))


@pytest.mark.parametrize(
    ("typed", "own"),
    [
        ("submit --pool t4 python train.py --format json", "submit --pool t4 python"),
        ("submit --format json python train.py", "submit --format json python"),
        ("submit --env A= --wait x --name= y", "submit --env A= --wait x"),
        ("submit x -- --format json", "submit x"),
        ("submit --name=x -f job.yaml", "submit --name=x -f job.yaml"),
        ("submit --nonsense x --format json", "submit --nonsense x --format json"),
        ("rerun 0195 --format json", "rerun 0195 --format json"),
        ("list --format json", "list --format json"),
        ("nothing --format json", "nothing --format json"),
        ("", ""),
    ],
)
def test_a_command_begins_with_the_first_word_that_is_no_option(typed: str, own: str) -> None:
    assert _own(["jobs", *typed.split()]) == ["jobs", *own.split()]


def test_options_of_a_command_are_its_own() -> None:
    commands = []
    for dashes in ((), ("--",)):
        command = ("python", "train.py", "--name", "x", "--budget", "3", "--env", "", "--format", "json")
        typed = ("--name", "mine", "--server", "http://ada:secret@queue:abc", *dashes, *command)
        done = gpupool("jobs", "submit", *typed)
        assert (done.returncode, done.stdout) == (2, ""), "not in JSON"
        assert done.stderr.startswith("queue:abc: not an address"), (
            "an empty word of the command's is its own"
        )
        commands.append(done.stderr)
    assert commands[0] == commands[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "job.yaml:1:1: the file is empty; write the fields of a job"),
        ("[1]", "job.yaml:1:1: the document is not a mapping"),
        ("a: 1\na: 2\n", "job.yaml:2:1: a: "),
        ("a: 1\n---\nb: 2\n", "job.yaml:2:1: "),
        ("a: [", "job.yaml:1:"),
    ],
)
def test_a_file_that_is_no_job_is_said_with_its_place(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    done = gpupool("jobs", "submit", "-f", str(file))
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_errors_in_a_file_have_their_place(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("gpu_count: 0\nenv:\n  A: 1\n  a/b: x\nvolumes:\n- claim: c\n  path: data\ngpus: 2\n")
    given = job_file.overridden(
        job_file.read(file), {"gpu_count": ("--gpus", -1), "env": ("--env", {"B": "2"})}
    )
    assert given["env"][1] == {"A": 1, "a/b": "x", "B": "2"}
    listed = [
        {"pointer": pointer, "detail": "wrong"}
        for pointer in ("#/gpu_count", "#/volumes/0/path", "#/volumes/0/mode", "#/gpus", "#/array")
    ]
    given["env"] = ("", given["env"][1], given["gpus"][2])
    listed += [{"pointer": f"#/env/{name}", "detail": "wrong"} for name in ("A", "a~1b", "1/[key]")]
    problem = {"type": "https://gpupool.dev/problems/invalid-request", "title": "T", "errors": listed}
    lines = message(error_of(422, json.dumps(problem).encode()), given).splitlines()
    places = [line.replace(str(file), "F").removesuffix(": wrong") for line in lines]
    assert places == [
        "--gpus -1",
        "F:7:3: volumes[0].path",
        "F:6:3: volumes[0]",
        "F:8:1: gpus",
        "--array",
        "F:3:3: env.A",
        'F:4:3: env["a/b"]',
        "F:2:1: env",
    ]


def test_api_command_line_and_client_have_the_same_fields() -> None:
    """What one of them can say of a job, the others can too."""
    api = set(JobRequest.model_fields)
    document = json.loads((Path(__file__).parents[2] / "docs" / "queue-openapi.json").read_text())
    assert set(document["components"]["schemas"]["JobRequest"]["properties"]) == api
    assert set(JobSpec.__annotations__) == api
    assert {option.field for option in OPTIONS} | {COMMAND} == api
    listed = set(JobFilter.__annotations__) | {"state"}
    assert listed - {"idempotency_key"} == set(CancelRequest.model_fields) - {"all"}
    assert set(json.loads(FILE.read_text())["properties"]) == api
    assert FILE.read_text() == job_schema(), "run make schema"


def test_every_option_says_what_the_api_reads() -> None:
    """Of each field a value as it is typed, taken as the API takes it."""
    typed: dict[str, Any] = {
        "request_json": None,
        "env": ["A=b"],
        "volumes": ["data:/data:ro"],
        "budget_limit_usd": 2.5,
        "timeout_seconds": "1h",
        "deadline_seconds": "2h",
        "array": 2,
        "shm_size": "1Gi",
        "scratch_size": "1.5Gi",
        "gpu_count": 1,
        "retries": 0,
        "preemptible": False,
        "may_idle": True,
        "isolation_level": "shared",
        "priority": "low",
        "target_url": None,
        "callback_url": "http://example/done",
        "checkpoint_s3_path": "s3://b/c",
        "depends_on": ["0195d6c8-2f3a-7e11-b7a5-6f1d2c3b4a59"],
        "depends_on_ended": ["0195d6c8-2f3a-7e11-b7a5-6f1d2c3b4a59"],
    }
    for option in OPTIONS:
        typed.setdefault(option.field, ["name"] if option.type == list[str] else "name")
    fields = {name: value for name, (_, value) in given(typed, ["echo", "--x"]).items() if value is not None}
    request = JobRequest.model_validate(fields)
    said = request.model_dump(exclude_unset=True)
    assert set(said) == set(JobRequest.model_fields) - {"request_json", "target_url"}
    assert said["volumes"] == [{"claim": "data", "path": "/data", "read_only": True}]
    assert (said["timeout_seconds"], said["retries"], said["preemptible"]) == (3600, 0, False)


def job(**fields: Any) -> Job:
    known: dict[str, Any] = {
        "id": "0195d6c8-2f3a-7e11-b7a5-6f1d2c3b4a59",
        "state": "running",
        "tenant": "vision",
    }
    return Job(**known | fields, client=None)  # type: ignore[arg-type]


def test_a_list_fits_the_columns_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    members = [
        job(
            id=f"0195d6c8-2f3a-7e11-b7a5-6f1d2c3b4{n:03}",
            state="scheduled",
            job_name="a name that is longer than others",
            project_id="detector",
            priority="critical",
            pool="inference-mig-of-others",
            gpus=0.285714,
            group_id="g",
            group_index=n,
            reason="its image can't be pulled " * 9,
        )
        for n in (0, 999)
    ]
    for width, columns in ((None, 12), (200, 12), (120, 9), (80, 6), (10, 6)):
        print_jobs(members, width or 1000)
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == 3
        assert max(map(len, lines)) <= max(width or 1000, NARROWEST), lines
        assert len(lines[0].split()) <= columns
        assert {"JOB", "INDEX", "STATE", "GPUS"} <= set(lines[0].split())
        assert lines[1].split()[0] != lines[2].split()[0], "ids stay different"
        assert members[0].id.startswith(lines[1].split()[0])
        assert "2/7" in lines[1].split()
        assert "999" in lines[2].split()


@pytest.mark.parametrize(
    ("amount", "share"),
    [(0.25, "1/4"), (0.142857, "1/7"), (0.285714, "2/7"), (1, "1"), (4, "4"), (1.5, "1.5")],
)
def test_shares_in_a_list(amount: float, share: str) -> None:
    assert words.gpu_share(amount) == share


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
    assert [row[0] for row in rows] == ["enqueued", "dispatched", "Job", "node", "running", "succeeded"]
    times = [float(next(word for word in row if word[0].isdigit())) for row in rows]
    assert times == [0.0, 0.2, 0.3, 0.3, 0.3, 0.6]
    assert rows[-1][-2:] == ["0.0015", "USD"]


@pytest.mark.parametrize(
    ("amount", "sentence"),
    [
        (0.5, "half a GPU"),
        (0.333333, "1/3 of a GPU"),
        (0.428571, "3/7 of a GPU"),
        (0.001667, "1/600 of a GPU"),
        (1, "1 GPU"),
        (4, "4 GPUs"),
    ],
)
def test_shares_of_a_gpu_are_words(amount: float, sentence: str) -> None:
    assert words.gpus(amount) == sentence


def test_events_are_said_in_plain_words() -> None:
    def said(kind: str, **change: object) -> tuple[str, str]:
        type = f"mlops.gpu.jobs.{kind}"
        return words.happened(Event(id="", type=type, job="", seq=1, tenant="", pool="small", change=change))

    decided = {"placement": [[3, 1]], "capacity_type": "spot", "gpu_micro": 500_000}
    money = {"rate_micro": 1_000_000, "hold_micro": 120_000}
    assert said("dispatched.t4.shared", **decided, **money) == (
        "dispatched",
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
        "dispatched_at": "2026-01-01T12:00:00Z",
        "pool": "training",
        "resource": "nvidia.com/gpu",
        "capacity_type": "on-demand",
        "placement": [[0, 4]],
        "usd_per_hour": 5.672,
        "hold_usd": 22.688,
        "run_limit_seconds": 14400,
    }
    assert list(words.decision(found)) == [
        "attempt 2, dispatched at 2026-01-01 12:00:00 UTC: pool training, node 0, on-demand",
        "  5.67 USD an hour; held for it: 22.69 USD, which pays for 4h",
    ]


def test_a_list_cuts_long_reasons_between_words(capsys: pytest.CaptureFixture[str]) -> None:
    fields: dict[str, Any] = dict.fromkeys(field.name for field in dataclasses.fields(Job))
    fields |= {"id": "a", "job_name": "b", "tenant": "c", "priority": "low", "cost_usd": 0.0, "waiting": None}
    print_jobs([Job(**fields | {"reason": "its image can't be pulled " * 10})])
    (line,) = capsys.readouterr().out.splitlines()[1:]
    assert line.endswith("its image can't be ...")
