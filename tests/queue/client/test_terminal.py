"""A job's output and names at a terminal, against the real API."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from tests.findings.test_terminal import HOSTILE, assert_harmless
from tests.queue.client.conftest import Queue
from tests.queue.client.test_command_line import begun, gpupool, submitted
from tests.terminal import GPUPOOL, sent_to_a_terminal


def test_a_jobs_output_is_shown_and_not_obeyed(queue: Any) -> None:
    text = "".join(HOSTILE.values())

    async def test(queue: Queue) -> None:
        job = await submitted(queue, "--pool", "t4", "--url", "http://example", "--name", "plain")
        await begun(queue, job["id"], 1, f"before{text}after")
        where = ("--server", queue.url, "--tenant", "vision")
        for command in (("logs", job["id"]), ("show", job["id"]), ("why", job["id"]), ("list",)):
            sent = await queue.ask(lambda command=command: sent_to_a_terminal("jobs", *command, *where))
            assert_harmless(sent)
            assert "Traceback" not in sent
        raw = await queue.ask(lambda: sent_to_a_terminal("jobs", "logs", "--raw", job["id"], *where))
        assert f"before{text}after" in raw, "a line ends with a line feed alone"
        piped = await queue.ask(subprocess.check_output, [GPUPOOL, "jobs", "logs", job["id"], *where])
        assert piped.decode() == f"before{text}after\n"
        answer = json.loads((await gpupool(queue, "logs", job["id"], "--format", "json")).stdout)
        assert answer["lines"] == [f"before{text}after"]
        shown = await queue.ask(
            lambda: sent_to_a_terminal("jobs", "logs", job["id"], *where, "--format", "json")
        )
        assert_harmless(shown)
        assert json.loads(shown) == answer, "JSON at a terminal stays JSON"

    queue(test)


def test_a_pipe_gets_each_byte_also_with_raw(queue: Any) -> None:
    async def test(queue: Queue) -> None:
        job = await submitted(queue, "--pool", "t4", "--url", "http://example")
        await begun(queue, job["id"], 1, "\x1b[32mgreen\x1b[0m 10 %")
        command = [GPUPOOL, "jobs", "logs", job["id"], "--server", queue.url, "--tenant", "vision"]
        for more in ([], ["--raw"]):
            done = await queue.ask(
                lambda more=more: subprocess.run([*command, *more], capture_output=True, check=True)
            )
            assert done.stdout == b"\x1b[32mgreen\x1b[0m 10 %\n"

    queue(test)
