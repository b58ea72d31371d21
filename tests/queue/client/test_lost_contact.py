"""`gpupool jobs` while the queue can't be reached: exit codes, what it says, and how to go on."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import subprocess
from datetime import UTC, datetime
from typing import Any

import pytest

from gpupool.queue.store import attempts, jobs
from tests.queue.client.test_command_line import GPUPOOL
from tests.queue.client.test_outages import Remote, behind
from tests.queue.store.samples import dispatched

__all__ = ["behind"]
SUBMIT = ("submit", "--pool", "t4", "--url", "http://example")
Ended = tuple[int, str, str]


class Command:
    """`gpupool jobs` in a process of its own."""

    def __init__(self, remote: Remote, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [str(GPUPOOL), "jobs", *arguments],
            env=os.environ | {"GPUPOOL_URL": remote.proxy.url, "GPUPOOL_KEY": remote.key},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    async def ended(self) -> Ended:
        printed, said = await asyncio.to_thread(self.process.communicate, None, 90)
        assert "Traceback" not in said
        return self.process.returncode, printed, said


async def submitted(remote: Remote) -> str:
    """The only job, once there is one."""
    while not (found := await jobs.jobs(remote.db, jobs.JobFilter(None), None, 1)).jobs:
        await asyncio.sleep(0.05)
    return found.jobs[0].id


async def runs(remote: Remote, id: str) -> None:
    now = datetime.now(UTC)
    assert await dispatched(remote.db, now=now, only=id) == [id]
    await attempts.take(remote.db, "executor", 10, 30, now)
    assert await attempts.record_start(remote.db, id, 1, now)


@pytest.mark.parametrize(("how", "code"), [("succeeded", 0), ("failed", 1)])
def test_an_outage_is_no_failure_of_the_job(behind: Any, how: str, code: int) -> None:
    async def test(remote: Remote) -> None:
        waits = Command(remote, *SUBMIT, "--wait")
        id = await submitted(remote)
        watches, follows = Command(remote, "watch", id), Command(remote, "logs", "-f", id)
        await runs(remote, id)
        for part in (f"/{id}/events", f"/{id}/logs"):  # both have reached it
            while not any(part in line for line in remote.proxy.asked):
                await asyncio.sleep(0.1)
        await remote.proxy.stop()
        await asyncio.sleep(10)
        await remote.proxy.start()
        await remote.ends(id, how)
        waited, watched, followed = [await command.ended() for command in (waits, watches, follows)]
        assert (waited[0], watched[0], followed[0]) == (code, code, 0)
        assert f"{id}  {how}" in waited[1]
        assert re.search(rf"^no answer from {remote.proxy.url}: .*; asking again$", waited[2], re.MULTILINE)
        assert re.search(r"answers again after [0-9]+ s$", waited[2], re.MULTILINE)

    behind(test)


def test_lost_contact_has_an_exit_code_of_its_own(behind: Any) -> None:
    async def test(remote: Remote) -> None:
        waits = Command(remote, *SUBMIT, "--wait", "--lost-after", "2s")
        id = await submitted(remote)
        watches = Command(remote, "watch", id, "--lost-after", "2s", "--format", "json")
        await asyncio.sleep(4)
        await remote.proxy.stop()
        waited, watched = await waits.ended(), await watches.ended()
        assert (waited[0], watched[0]) == (3, 3)
        assert f"look with `gpupool jobs show {id}`" in waited[2]
        shown = await Command(remote, "show", id).ended()
        assert (shown[0], shown[1]) == (3, "")

    behind(test)


def test_a_key_that_is_revoked_while_one_waits_is_no_failed_job(behind: Any) -> None:
    async def test(remote: Remote) -> None:
        waits = Command(remote, *SUBMIT, "--wait")
        await submitted(remote)
        await asyncio.sleep(3)
        remote.proxy.faults.extend(["401"] * 50)
        code, _, said = await waits.ended()
        assert code == 3
        assert "continues" in said

    behind(test)


def test_what_became_of_a_submission_can_be_asked(behind: Any) -> None:
    async def test(remote: Remote) -> None:
        remote.proxy.faults.append("500 after the effect")
        code, printed, said = await Command(remote, *SUBMIT, "--array", "3", "--tenant", "vision").ended()
        assert (code, printed) == (3, "")
        assert "gpupool serve" not in said
        command = re.search(r"`(gpupool jobs list [^`]*)`", said)
        assert command is not None
        words = shlex.split(command[1])
        code, printed, _ = await Command(remote, *words[2:], "--format", "json").ended()
        assert (code, len(json.loads(printed)["jobs"])) == (0, 3)
        key = words[words.index("--idempotency-key") + 1]
        code, printed, _ = await Command(remote, *SUBMIT, "--array", "3", "--idempotency-key", key).ended()
        assert code == 0
        assert re.search(
            r"^this idempotency key was used for the jobs of group .* at .* UTC; nothing", printed, re.M
        )
        assert len((await jobs.jobs(remote.db, jobs.JobFilter(None), None, 10)).jobs) == 3

    behind(test)


def test_a_submission_that_is_interrupted_says_its_key(behind: Any) -> None:
    async def test(remote: Remote) -> None:
        remote.proxy.faults.append("stalls after")
        command = Command(remote, *SUBMIT, "--idempotency-key", "mine")
        await submitted(remote)
        await asyncio.sleep(0.5)
        command.process.send_signal(signal.SIGINT)
        code, printed, said = await command.ended()
        assert (code, printed) == (130, "")
        assert "`gpupool jobs list --idempotency-key mine`" in said

    behind(test)
