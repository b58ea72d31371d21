"""`gpupool jobs` as a user runs it, against the real API."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpupool.queue.simulate.formats import read as read_trace
from gpupool.queue.store import attempts, jobs, logs
from gpupool.queue.text_secrets import HIDDEN
from tests.queue.client.conftest import Queue
from tests.queue.store.samples import dispatched, finished, read, running, sql

GPUPOOL = Path(sys.executable).with_name("gpupool")
Done = subprocess.CompletedProcess[str]


async def gpupool(queue: Queue, *arguments: str, stdin: str = "") -> Done:
    def run() -> Done:
        verb, *more = arguments
        return subprocess.run(
            [str(GPUPOOL), "jobs", verb, "--server", queue.url, "--tenant", "vision", *more],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    done: Done = await queue.ask(run)
    assert "Traceback" not in done.stderr
    return done


async def submitted(queue: Queue, *arguments: str) -> dict[str, Any]:
    done = await gpupool(queue, "submit", "--format", "json", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return dict(json.loads(done.stdout))


def test_a_container_job_from_submit_to_cancel(queue: Any) -> None:
    async def test(queue: Queue) -> None:
        options = ("--pool", "t4", "--image", "python:3.12", "--project", "ocr", "--timeout", "1h30m")
        command = ("python", "-c", "", "--format", "json")
        made = await submitted(queue, *options, "--env", "A=b=c", *command)
        assert made["container_command"] == list(command)
        assert (made["timeout_seconds"], made["env"], made["project_id"]) == (5400, {"A": HIDDEN}, "ocr")
        id = made["id"]

        listed = (await gpupool(queue, "list", "--state", "queued")).stdout.splitlines()
        assert listed[0].split()[:5] == ["JOB", "NAME", "TENANT", "PROJECT", "STATE"]
        assert listed[1].startswith(id)
        answer = json.loads((await gpupool(queue, "list", "--format", "json")).stdout)
        assert [job["id"] for job in answer["jobs"]] == [id]

        shown = (await gpupool(queue, "show", id)).stdout
        assert "enqueued  priority low, shared" in shown
        assert re.search(r"^timeout +1h30m$", shown, re.MULTILINE)
        assert "A=b" not in shown, "variables may be secrets"
        why = (await gpupool(queue, "why", id)).stdout
        assert "notebooks" in why
        assert "guaranteed share: 0 of 16 slots in use; the job is within it" in why
        assert not re.search(r"\w_\w", why + shown), "names of the API"
        assert json.loads((await gpupool(queue, "why", id, "--format", "json")).stdout)["state"] == "queued"

        assert (await gpupool(queue, "cancel", id)).stdout == f"{id}  cancelled\n"
        watched = (await gpupool(queue, "watch", id)).stdout.splitlines()
        assert [line.split()[4] for line in watched] == ["enqueued", "cancelled"]

    queue(test)


def test_jobs_that_are_over_are_a_trace(queue: Any, tmp_path: Path) -> None:
    async def test(queue: Queue) -> None:
        job = await running(queue.db, timeout_s=600)
        await finished(queue.db, job, "succeeded", after_s=90)
        await submitted(queue, "--pool", "t4", "--url", "http://example")
        file = tmp_path / "jobs.csv"
        file.write_text((await gpupool(queue, "export")).stdout, encoding="utf-8")
        trace = read_trace(file)
        (arrival,) = trace.arrivals
        assert (arrival.tenant, arrival.seconds, arrival.timeout_s) == ("vision", 90, 600)
        assert trace.left_out == {}, "what still waits is no part of it"

    queue(test)


def test_an_http_job_with_its_request_in_a_file(queue: Any, tmp_path: Path) -> None:
    async def test(queue: Queue) -> None:
        file = tmp_path / "request.json"
        file.write_text('{"x": 1}')
        made = await submitted(
            queue,
            "--pool",
            "t4",
            "--isolation",
            "exclusive",
            "--url",
            "http://example",
            "--request",
            str(file),
        )
        assert (made["request_json"], made["isolation_level"]) == ({"x": 1}, "exclusive")
        done = await gpupool(
            queue, "submit", "--pool", "t4", "--url", "http://example", "--request", "-", stdin="{"
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("-: not JSON")

    queue(test)


async def begun(queue: Queue, id: str, attempt: int, *lines: str) -> None:
    """An attempt runs and has printed these lines."""
    now = datetime.now(UTC)
    await sql(queue.db, "UPDATE gpu_jobs SET not_before = NULL WHERE id = %s RETURNING id", id)
    assert await dispatched(queue.db, now=now, only=id) == [id]
    await attempts.take(queue.db, "executor", 10, 30, now)
    assert await attempts.record_start(queue.db, id, attempt, now)
    await logs.append(queue.db, id, attempt, lines)


def test_logs_of_one_attempt_are_the_output_alone(queue: Any) -> None:
    async def test(queue: Queue) -> None:
        id = (await submitted(queue, "--pool", "t4", "--image", "a:1"))["id"]
        await begun(queue, id, 1, "one", "two")
        assert await finished(queue.db, await read(queue.db, id), "failed", retry=False)
        for follow in ((), ("--follow",)):
            done = await gpupool(queue, "logs", *follow, id)
            assert (done.stdout, done.stderr) == ("one\ntwo\n", "")
        done = await gpupool(queue, "logs", id, "--format", "json")
        assert json.loads(done.stdout)["lines"] == ["one", "two"]

    queue(test)


def test_logs_say_which_attempt_follows(queue: Any) -> None:
    async def test(queue: Queue) -> None:
        id = (await submitted(queue, "--pool", "t4", "--image", "a:1", "--retries", "1"))["id"]
        await begun(queue, id, 1, "one")
        command = [str(GPUPOOL), "jobs", "logs", "--follow", id, "--server", queue.url, "--tenant", "vision"]
        pipe = asyncio.subprocess.PIPE
        following = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
        assert following.stdout is not None
        assert await following.stdout.readline() == b"one\n"
        assert await finished(queue.db, await read(queue.db, id), "failed")
        await begun(queue, id, 2, "two", "three")
        assert await finished(queue.db, await read(queue.db, id), "succeeded")
        assert await following.communicate() == (b"two\nthree\n", b"--- attempt 2\n")

        done = await gpupool(queue, "logs", id)
        assert (done.stdout, done.stderr) == ("one\ntwo\nthree\n", "--- attempt 1\n--- attempt 2\n")
        both = f"env -u PYTHONUNBUFFERED '{GPUPOOL}' jobs logs --server {queue.url} --tenant vision {id} 2>&1"
        together: bytes = await queue.ask(subprocess.check_output, ["sh", "-c", both])
        assert together == b"--- attempt 1\none\n--- attempt 2\ntwo\nthree\n"
        done = await gpupool(queue, "logs", "--attempt", "2", id)
        assert (done.stdout, done.stderr) == ("two\nthree\n", "")
        done = await gpupool(queue, "logs", id, "--format", "json")
        assert (json.loads(done.stdout)["lines"], done.stderr) == (["one", "two", "three"], "")

    queue(test)


def test_who_waits_for_a_job_is_told_what_it_waits_for(queue: Any) -> None:
    async def test(queue: Queue) -> None:
        submit = ("submit", "--wait", "--pool", "t4", "--image", "a:1", "--idempotency-key", "one")
        waiting = asyncio.create_task(gpupool(queue, *submit))
        while not (found := await jobs.jobs(queue.db, jobs.JobFilter(None), None, 1)).jobs:
            await asyncio.sleep(0.05)
        id = found.jobs[0].id
        for reason, detail in (("capacity", "no 1"), ("capacity", "no 2"), ("budget", "none left")):
            said = json.dumps({"reason": reason, "detail": detail})
            await sql(queue.db, "UPDATE gpu_jobs SET waiting = %s::jsonb RETURNING id", said)
            await asyncio.sleep(4)
        await jobs.cancel(queue.db, id, "ada", datetime.now(UTC))
        done = await waiting
        lines = [line.rstrip(" 12") for line in done.stderr.splitlines()]
        assert lines == [f"{id}  capacity: no", f"{id}  budget: none left"]

    queue(test)


def test_who_has_waited_sees_what_the_jobs_have_cost(queue: Any) -> None:
    async def test(queue: Queue) -> None:
        options = ("--pool", "t4", "--image", "a:1", "--array", "2", "--idempotency-key", "one")
        ids = (await submitted(queue, *options))["job_ids"]
        await begun(queue, ids[0], 1)
        assert await finished(queue.db, await read(queue.db, ids[0]), "succeeded", exit_code=0)
        await jobs.cancel(queue.db, ids[1], "ada", datetime.now(UTC))
        done = await gpupool(queue, "submit", "--wait", *options)
        assert (done.returncode, done.stderr) == (1, ""), "one was cancelled"
        first, second, both, *_ = done.stdout.splitlines()
        assert re.fullmatch(f"{ids[0]}  succeeded, pool notebooks, cost 0.00[0-9]+ USD", first)
        assert second == f"{ids[1]}  cancelled, for t4, cost 0.00 USD"
        assert re.fullmatch("2 jobs, group [0-9a-f-]{36}, cost 0.00[0-9]+ USD", both)
        done = await gpupool(queue, "submit", "--wait", "--format", "json", *options)
        listed = [(job["id"], job["state"]) for job in json.loads(done.stdout)["jobs"]]
        assert (done.returncode, listed) == (1, list(zip(ids, ("succeeded", "cancelled"), strict=True)))

        alone = ("--pool", "t4", "--image", "a:1", "--idempotency-key", "two")
        id = (await submitted(queue, *alone))["id"]
        await jobs.cancel(queue.db, id, "ada", datetime.now(UTC))
        done = await gpupool(queue, "submit", "--wait", "--format", "json", *alone)
        assert (json.loads(done.stdout)["id"], json.loads(done.stdout)["state"]) == (id, "cancelled")

    queue(test)


def test_waiting_that_is_interrupted_says_how_to_go_on(queue: Any) -> None:
    async def test(queue: Queue) -> None:
        for array in (), ("--array", "2"):
            submit = ("submit", "--wait", "--server", queue.url, "--tenant", "vision")
            waiting = subprocess.Popen(
                [str(GPUPOOL), "jobs", *submit, "--pool", "t4", "--image", "a:1", *array],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            assert waiting.stderr is not None
            first = await queue.ask(waiting.stderr.readline)  # what it waits for
            waiting.send_signal(signal.SIGINT)
            printed, said = await queue.ask(waiting.communicate)
            assert (waiting.returncode, printed) == (130, "")
            shown = re.search("`gpupool jobs show ([0-9a-f-]{36})`", said)
            assert shown is not None
            assert f"`gpupool jobs cancel {shown[1]}`" in said, "the job, or the array"
            assert (shown[1] == first.split()[0]) is not bool(array)
            assert "Traceback" not in said

    queue(test)


def test_who_follows_logs_sees_what_the_job_waits_for_until_it_prints(queue: Any) -> None:
    async def test(queue: Queue) -> None:
        queued, prints = [(await submitted(queue, "--pool", "t4", "--image", "a:1"))["id"] for _ in range(2)]
        now = datetime.now(UTC)
        await dispatched(queue.db, now=now, only=prints)
        await attempts.take(queue.db, "executor", 10, 30, now)
        said = json.dumps({"reason": "starting", "detail": "its second pod starts"})
        await sql(
            queue.db, "UPDATE gpu_jobs SET waiting = %s::jsonb WHERE id = %s RETURNING id", said, prints
        )
        await logs.append(queue.db, prints, 1, ["first pod"])
        following = [asyncio.create_task(gpupool(queue, "logs", "-f", id)) for id in (queued, prints)]
        await asyncio.sleep(6)
        await begun(queue, queued, 1, "one")
        await asyncio.sleep(3)
        assert await finished(queue.db, await read(queue.db, queued), "failed")
        await asyncio.sleep(3)  # queued again
        for id in (queued, prints):
            await jobs.cancel(queue.db, id, "ada", datetime.now(UTC))
        assert await finished(queue.db, await read(queue.db, prints), "cancelled")
        first, second = await asyncio.gather(*following)
        waits = f"{queued}  queued: other jobs of vision go first\n"
        assert (first.stdout, first.stderr) == ("one\n", waits)
        assert (second.stdout, second.stderr) == ("first pod\n", "")

    queue(test)


def test_a_dry_run_makes_no_job(queue: Any) -> None:
    async def test(queue: Queue) -> None:
        done = await gpupool(queue, "submit", "--dry-run", "--pool", "t4", "--image", "a:1")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("fits; at most $")
        assert "notebooks" in done.stdout
        assert (await gpupool(queue, "list")).stdout == "no jobs\n"

    queue(test)


def test_refusals_are_messages(queue: Any) -> None:
    async def test(queue: Queue) -> None:
        done = await gpupool(queue, "show", "nothing")
        assert (done.returncode, done.stdout) == (2, "")
        assert "there is no job nothing" in done.stderr
        done = await gpupool(queue, "submit", "--pool", "nope", "--image", "a:1", "--format", "json")
        assert done.returncode == 1
        assert "nope" in json.loads(done.stdout)["errors"][0]
        done = await gpupool(queue, "submit", "--pool", "t4", "--priority", "urgent", "--gpus", "2000")
        assert [line.partition(": ")[0] for line in done.stderr.splitlines()] == [
            "--priority 'urgent'",
            "--gpus 2000",
        ]
        done = await gpupool(queue, "submit", "--pool", "t4")
        assert done.stderr == "give either --url or --image\n"
        done = await gpupool(queue, "list", "--state", "gone")
        assert done.stderr.startswith("--state 'gone': ")
        done = await gpupool(queue, "list", "--state", "dispatching")
        assert done.stderr == "--state 'dispatching': is now called scheduled; write scheduled\n"

    queue(test)
