"""A container job's command as a local process, for `serve --dev`: its image is named and not used.

SIGTERM is the hook for a checkpoint; after the grace period it is killed with all that it started, as it is
when this process is killed (`gpupool.queue.command_keeper`): no attempt runs beside the next. The output
becomes the attempt's log, line by line. Whose rights it has, `gpupool.programs.local_command` says; it must
not be used where users are not trusted with this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import tempfile
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog

from gpupool.programs import local_command
from gpupool.queue import command_keeper
from gpupool.queue.records import Job, Outcome
from gpupool.queue.store.errors import StoreError
from gpupool.queue.store.kept_output import TOGETHER_S, KeptOutput
from gpupool.queue.variables import pod_variables, variables

log = structlog.get_logger()

GRACE_S = 30.0
LINE = 64 * 1024
"""Longer lines are cut into pieces of this size."""
_KEEPER = command_keeper.Keeper()


async def run_process(job: Job, stop: asyncio.Future[Outcome], kept: KeptOutput) -> Outcome:
    """Run the job's command to its end, its time limit, or until `stop` says how it ends."""
    command = [str(part) for part in job.request.get("container_command") or ()]
    if not command:
        return Outcome(
            "failed", "container_command is empty, and without an image nothing can be run", 127, False
        )
    home = Path(tempfile.mkdtemp(prefix="gpupool-job-"))
    try:
        return await _run(job, command, home, stop, kept)
    finally:
        await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)


async def _run(
    job: Job, command: list[str], home: Path, stop: asyncio.Future[Outcome], kept: KeptOutput
) -> Outcome:
    local_command.make_folder(home)
    mark = str(uuid.uuid4())
    _KEEPER.keep(mark)
    try:
        # What lets its code fence its own effects is among the job's variables.
        own = {**variables(job, str(home)), **pod_variables(socket.gethostname(), mark)}
        process, output = await local_command.start(command, {**local_command.environment(home), **own}, home)
    except OSError as error:
        _KEEPER.forget(mark)
        return Outcome("failed", f"{command[0]} can't be run: {error.strerror}", 127, False)
    _KEEPER.keep(mark, process.pid)
    reading = asyncio.create_task(_read(output, kept))
    ending = asyncio.create_task(process.wait())
    either: set[asyncio.Future[Any]] = {ending, stop}
    try:
        await asyncio.wait(either, timeout=job.attempt_limit_s, return_when=asyncio.FIRST_COMPLETED)
        if ending.done() and not stop.done():
            code = ending.result()
            return Outcome("succeeded", None, 0) if code == 0 else Outcome("failed", _ended(code), code)
        await _terminate(process)
        if stop.done():
            return replace(stop.result(), exit_code=process.returncode)
        reason = f"it ran for longer than {job.attempt_limit_s} s"
        return Outcome("timeout", reason, process.returncode, False)
    finally:
        await _kill(process)
        await asyncio.to_thread(command_keeper.end, {mark: process.pid})  # what left its group
        _KEEPER.forget(mark)
        await asyncio.wait({reading}, timeout=2)
        reading.cancel()
        process.close()


def _ended(code: int) -> str:
    return f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


async def _terminate(process: local_command.StartedProcess) -> None:
    _signal(process, signal.SIGTERM)
    try:
        async with asyncio.timeout(GRACE_S):
            await process.wait()
    except TimeoutError:
        await _kill(process)


async def _kill(process: local_command.StartedProcess) -> None:
    """The whole group: children that outlive their parent would keep a GPU."""
    _signal(process, signal.SIGKILL)
    await process.wait()


def _signal(process: local_command.StartedProcess, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


async def _read(output: asyncio.StreamReader, kept: KeptOutput) -> None:
    """Lines to the log. What the database does not take is left out: no process waits for it."""
    rest, chunk = b"", b"begun"
    reading = asyncio.ensure_future(output.read(LINE))
    try:
        while chunk:
            done, _ = await asyncio.wait({reading}, timeout=TOGETHER_S)
            lines: list[bytes] = []
            if done:
                chunk = reading.result()
                *lines, rest = (rest + chunk).split(b"\n")
                if len(rest) >= LINE or (rest and not chunk):
                    lines, rest = [*lines, rest], b""
                reading = asyncio.ensure_future(output.read(LINE))
            await _keep(kept, [_text(line) for line in lines])
    finally:
        reading.cancel()
        await _keep(kept, [_text(rest)] if rest else [], last=True)


async def _keep(kept: KeptOutput, lines: list[str], *, last: bool = False) -> None:
    try:
        await kept.add(lines)
        if last:
            await kept.flush()
    except StoreError as error:
        log.warning("log.lost", job=kept.job, attempt=kept.attempt, error=str(error))


def _text(line: bytes) -> str:
    """Without what PostgreSQL's text can't hold."""
    return line.decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}").rstrip("\r")
