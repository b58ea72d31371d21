"""A container job's command as a local process, for `serve --dev`: its image is named and not used.

SIGTERM is the hook for a checkpoint; after the grace period the whole process group is killed. The output
becomes the attempt's log, line by line. Whose rights it has, `gpupool.local_command` says; it must not be
used where users are not trusted with this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpupool import local_command
from gpupool.queue.records import Job, Outcome
from gpupool.queue.variables import variables

GRACE_S = 30.0
LINE = 64 * 1024
"""Longer lines are cut into pieces of this size."""

Write = Callable[[Job, list[str]], Awaitable[None]]


async def run_process(job: Job, stop: asyncio.Future[Outcome], write: Write) -> Outcome:
    """Run the job's command to its end, its time limit, or until `stop` says how it ends."""
    command = [str(part) for part in job.request.get("container_command") or ()]
    if not command:
        return Outcome(
            "failed", "container_command is empty, and without an image nothing can be run", 127, False
        )
    home = Path(tempfile.mkdtemp(prefix="gpupool-job-"))
    try:
        return await _run(job, command, home, stop, write)
    finally:
        await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)


async def _run(
    job: Job, command: list[str], home: Path, stop: asyncio.Future[Outcome], write: Write
) -> Outcome:
    local_command.make_folder(home)
    try:
        # What lets its code fence its own effects is among the job's variables.
        given = {**local_command.environment(home), **variables(job)}
        process, output = await local_command.start(command, given, home)
    except OSError as error:
        return Outcome("failed", f"{command[0]} can't be run: {error.strerror}", 127, False)
    reading = asyncio.create_task(_read(output, job, write))
    ending = asyncio.create_task(process.wait())
    either: set[asyncio.Future[Any]] = {ending, stop}
    try:
        await asyncio.wait(either, timeout=job.run_limit_s, return_when=asyncio.FIRST_COMPLETED)
        if ending.done() and not stop.done():
            code = ending.result()
            return Outcome("succeeded", None, 0) if code == 0 else Outcome("failed", _ended(code), code)
        await _terminate(process)
        if stop.done():
            return replace(stop.result(), exit_code=process.returncode)
        reason = f"it ran for longer than {job.run_limit_s} s"
        return Outcome("timeout", reason, process.returncode, False)
    finally:
        await _kill(process)
        await asyncio.wait({reading}, timeout=2)
        reading.cancel()
        process.close()


def _ended(code: int) -> str:
    return f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


async def _terminate(process: local_command.Started) -> None:
    _signal(process, signal.SIGTERM)
    try:
        async with asyncio.timeout(GRACE_S):
            await process.wait()
    except TimeoutError:
        await _kill(process)


async def _kill(process: local_command.Started) -> None:
    """The whole group: children that outlive their parent would keep a GPU."""
    _signal(process, signal.SIGKILL)
    await process.wait()


def _signal(process: local_command.Started, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


async def _read(output: asyncio.StreamReader, job: Job, write: Write) -> None:
    """Lines to the log, several at once where they come fast."""
    rest = b""
    while chunk := await output.read(LINE):
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) >= LINE:
            lines, rest = [*lines, rest], b""
        if lines:
            await write(job, [_text(line) for line in lines])
    if rest:
        await write(job, [_text(rest)])


def _text(line: bytes) -> str:
    """Without what PostgreSQL's text can't hold."""
    return line.decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}").rstrip("\r")
