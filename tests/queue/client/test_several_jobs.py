"""Arrays, beginnings of ids, job files and running again, on the command line and with the client."""

from __future__ import annotations

import asyncio
import json
import os
import pty
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from gpupool.client import AsyncClient, Client
from gpupool.queue.store import logs
from tests.queue.client.conftest import Queue
from tests.queue.client.test_command_line import GPUPOOL, begun, gpupool, submitted
from tests.queue.store.samples import finished, read

T4 = ("--pool", "t4", "--image", "a:1")


def test_the_id_of_an_array_is_taken_as_that_of_a_job(queue: Any) -> None:
    async def test(queue: Queue) -> None:
        made = await submitted(queue, *T4, "--array", "2")
        array, (one, two) = made["group_id"], made["job_ids"]
        await begun(queue, one, 1, "from one")
        assert await finished(queue.db, await read(queue.db, one), "succeeded")
        shown = (await gpupool(queue, "show", array)).stdout.splitlines()
        assert shown[0].startswith(f"array {array}  2 jobs: 1 succeeded, 1 queued; cost 0.00")
        assert [line.split()[0] for line in shown[3:]] == [one, two]
        assert [line.split()[2] for line in shown[3:]] == ["0", "1"]
        data = json.loads((await gpupool(queue, "show", array, "--format", "json")).stdout)
        assert (data["group_id"], [job["id"] for job in data["jobs"]]) == (array, [one, two])
        why = (await gpupool(queue, "why", array)).stdout
        assert f"{two}  queued" in why
        assert one not in why
        done = await gpupool(queue, "logs", array)
        assert done.stdout == "from one\n"
        assert done.stderr == f"--- job {one}, index 0\n--- job {two}, index 1\n"
        data = json.loads((await gpupool(queue, "logs", array, "--format", "json")).stdout)
        assert [job["lines"] for job in data["jobs"]] == [["from one"], []]
        waiting = asyncio.create_task(gpupool(queue, "watch", array))
        await asyncio.sleep(2)
        done = await gpupool(queue, "cancel", array)
        assert done.stdout == f"{two}  cancelled\n"
        watched = [line.split() for line in (await waiting).stdout.splitlines()]
        assert {(line[3], line[4]) for line in watched} >= {(one, "succeeded"), (two, "cancelled")}
        assert sum(line[4] == "enqueued" for line in watched) == 2

    queue(test)


def test_a_beginning_of_an_id_is_enough_where_no_other_has_it(queue: Any) -> None:
    async def test(queue: Queue) -> None:
        made = await submitted(queue, *T4, "--array", "3")
        first = made["id"]
        done = await gpupool(queue, "show", first[:9])
        assert (done.returncode, done.stdout) == (2, "")
        lines = done.stderr.splitlines()
        assert lines[0].startswith(f"ids of several begin with {first[:9]}; give more")
        assert [line.split() for line in lines[1:]] == [
            *(["job", id] for id in made["job_ids"]),
            ["array", made["group_id"]],
        ]
        assert first in (await gpupool(queue, "show", first[:35])).stdout
        array = made["group_id"]
        after = await submitted(queue, *T4, "--after", array[:35], "--afterany", first[:-1])
        assert (after["depends_on"], after["depends_on_ended"]) == ([array], [first])
        done = await gpupool(queue, "list", "--group", array[:34])
        assert len(done.stdout.splitlines()) == 4
        for wrong in ("0195", "ffffffff", "no-such-job", f"{first}0"):
            done = await gpupool(queue, "cancel", wrong)
            assert (done.returncode, done.stdout) == (2, "")
            assert f"there is no job {wrong}" in done.stderr
        done = await gpupool(queue, "cancel", "\x1b[2J-no-such-job")
        assert done.stderr.startswith("there is no job \\x1b[2J-no-such-job")
        done = await gpupool(queue, "cancel", first[:35])
        assert done.stdout == f"{first}  cancelled\n"

    queue(test)


def test_jobs_are_cancelled_by_what_they_are(queue: Any) -> None:
    async def test(queue: Queue) -> None:
        sweep = await submitted(queue, *T4, "--array", "2", "--name", "sweep")
        other = await submitted(queue, *T4, "--name", "other")
        for wrong in ((), ("--all", other["id"]), ("--all", "--name", "sweep"), ("--state", "failed")):
            done = await gpupool(queue, "cancel", *wrong)
            assert done.returncode in (1, 2), wrong
            assert done.stdout == ""
        done = await gpupool(queue, "cancel", "--state", "queued", "--state", "failed")
        assert done.stderr.startswith("--state 'failed': ")
        done = await gpupool(queue, "cancel", "--name", "sweep", "--state", "queued")
        assert sorted(line.split()[0] for line in done.stdout.splitlines()) == sweep["job_ids"]
        asks = await on_terminal(queue, "cancel", "--all", answer="n\n")
        assert "Cancel 1 jobs of vision? [y/N]:" in asks
        assert (await read(queue.db, other["id"])).state == "queued"
        assert f"{other['id']}  cancelled" in await on_terminal(queue, "cancel", "--all", answer="y\n")
        assert "no jobs to cancel" in await on_terminal(queue, "cancel", "--all", "--yes", answer="")

    queue(test)


async def on_terminal(queue: Queue, *typed: str, answer: str) -> str:
    """What a command prints on a terminal where `answer` is typed."""
    ours, terminal = pty.openpty()
    command = [str(GPUPOOL), "jobs", *typed, "--server", queue.url, "--tenant", "vision"]
    process = await asyncio.create_subprocess_exec(*command, stdin=terminal, stdout=terminal, stderr=terminal)
    os.close(terminal)
    os.write(ours, answer.encode())
    await asyncio.wait_for(process.wait(), 60)
    printed = os.read(ours, 65536).decode()
    os.close(ours)
    return printed


def test_a_job_file_says_what_options_say(queue: Any, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    text = """
gpu_pool_requested: t4
container_image: python:3.12
container_command: [python, -c, "print('$HOME')"]
env: {A: "1", B: "2"}
env_from_secrets: []
volumes: []
timeout_seconds: 60
retries: 0
may_idle: true
"""

    async def test(queue: Queue) -> None:
        file.write_text(text)
        made = await submitted(queue, "-f", str(file), "--timeout", "2m", "--env", "B=3", "--may-not-idle")
        assert made["container_command"] == ["python", "-c", "print('$HOME')"]
        assert (made["timeout_seconds"], made["retries"], made["may_idle"]) == (120, 0, False)
        assert (await read(queue.db, made["id"])).request["env"] == {"A": "1", "B": "3"}
        made = await submitted(queue, "-f", str(file), "sh", "-c", "exit 1")
        assert made["container_command"] == ["sh", "-c", "exit 1"]
        file.write_text(text.replace("retries: 0", "retries: many") + "gpus: 2\n")
        done = await gpupool(queue, "submit", "-f", str(file), "--gpus", "2000")
        assert done.returncode == 1
        assert sorted(
            line.replace(str(file), "F").partition(": ")[0] for line in done.stderr.splitlines()
        ) == [
            "--gpus 2000",
            "F:11:1",
            "F:9:1",
        ]
        done = await gpupool(queue, "submit", "-f", "-", stdin=text)
        assert done.returncode == 0
        unclear = (
            text.replace('A: "1"', "A: 0712, C: yes") + "budget_limit_usd: .nan\nrequest_json: [{x: 1e3}]\n"
        )
        done = await gpupool(queue, "submit", "-f", "-", stdin=unclear)
        assert done.returncode == 1
        assert [" ".join(line.split()[:2]) for line in done.stderr.splitlines()[:-1]] == [
            "-:5:7: env.A:",
            "-:5:16: env.C:",
            "-:11:1: budget_limit_usd:",
            "-:12:17: request_json[0].x:",
        ]
        assert "0712" not in done.stderr

    queue(test)


def test_a_job_and_an_array_run_again(queue: Any) -> None:
    async def test(queue: Queue) -> None:
        array = await submitted(queue, *T4, "--array", "2", "--env", "A=1", "python", "-V")
        done = await gpupool(queue, "rerun", array["group_id"], "--env", "B=2", "--format", "json")
        again = json.loads(done.stdout)
        assert len(again["job_ids"]) == 2
        request = (await read(queue.db, again["job_ids"][1])).request
        assert (request["env"], request["container_command"]) == ({"A": "1", "B": "2"}, ["python", "-V"])
        await gpupool(queue, "cancel", array["job_ids"][1])
        done = await gpupool(queue, "rerun", "--unsuccessful", array["group_id"], "--format", "json")
        assert json.loads(done.stdout)["group_index"] == 1

        def with_client() -> None:
            with Client(queue.url, tenant="vision") as client:
                job = client.job(array["id"]).rerun(priority="low", timeout_seconds=None)
                assert (job.group_index, job.priority) == (0, "low")
                assert client.find(job.id).jobs == (job.id,)
                reached = client.cancel_jobs(group=job.group_id)
                assert [(one.id, one.state) for one in reached] == [(job.id, "cancelled")]
                assert client.cancel_jobs("running") == ()

        await queue.ask(with_client)
        async with AsyncClient(queue.url, tenant="vision") as client:
            job = await (await client.job(array["id"])).rerun(priority="low")
            reached = await client.cancel_jobs(everything=True)
            assert job.id in {one.id for one in reached}

    queue(test)


def test_the_end_of_an_output(queue: Any) -> None:
    async def test(queue: Queue) -> None:
        id = (await submitted(queue, *T4))["id"]
        now = datetime.now(UTC)
        await begun(queue, id, 1)
        for ago, lines in ((7200, ["1", "2"]), (300, ["3", "4", "5"]), (120, ["6"])):
            await logs.append(queue.db, id, 1, lines, now - timedelta(seconds=ago))

        async def shown_logs(*options: str) -> str:
            return (await gpupool(queue, "logs", id, *options)).stdout.replace("\n", "")

        assert await shown_logs() == "123456"
        assert [await shown_logs("--tail", str(n)) for n in (1, 2, 4, 5, 100)] == [
            "6",
            "56",
            "3456",
            "23456",
            "123456",
        ]
        assert [await shown_logs("--since", text) for text in ("9m", "1h", "3h", "1m")] == [
            "3456",
            "3456",
            "123456",
            "",
        ]
        assert await shown_logs("--since", "1h", "--tail", "2") == "56"
        done = await gpupool(queue, "logs", id, "--tail", "0")
        assert done.returncode == 2
        command = [str(GPUPOOL), "jobs", "logs", "-f", id, "--server", queue.url, "--tenant", "vision"]
        last, recent = [
            await asyncio.create_subprocess_exec(*command, *options, stdout=asyncio.subprocess.PIPE)
            for options in (("--tail", "1"), ("--since", "1m"))
        ]
        assert last.stdout is not None
        first = await last.stdout.readline()
        await logs.append(queue.db, id, 1, ["7"])
        assert await finished(queue.db, await read(queue.db, id), "succeeded")
        assert (first, (await last.communicate())[0]) == (b"6\n", b"7\n")
        assert (await recent.communicate())[0] == b"7\n"

    queue(test)
