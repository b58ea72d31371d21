"""The process of one pod: start it in a session of its own, keep its output, and end all that it started.

It knows nothing of pods beyond their UID, by which processes are found again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

from gpupool.local import processes
from gpupool.local.pods.command import PodCommand
from gpupool.local.pods.output import PodOutput
from gpupool.programs import local_command

POD_VARIABLE = "GPUPOOL_POD_UID"
_RECORD = "process"
_OUTPUT_SECONDS = 2.0
"""How long the output of a process that has ended may take to arrive."""


class Process:
    """One that was started here."""

    def __init__(self, process: local_command.StartedProcess, copying: asyncio.Task[None]) -> None:
        self.pid = process.pid
        self._process = process
        self._copying = copying

    @classmethod
    async def start(
        cls, command: PodCommand, data: Path, folder: Path, work: Path, output: PodOutput
    ) -> Process:
        """Run it for the pod of this `folder` of the control plane's `data`; its own folder is `work`.

        Raises OSError or ValueError.
        """
        folder.mkdir(parents=True, mode=0o700)
        variables = {**command.environment, processes.MARK: str(data), POD_VARIABLE: folder.name}
        process, reader = await local_command.start(command.argv, variables, work)
        (folder / _RECORD).write_text(f"{process.pid} {processes.start_mark(process.pid)}")
        return cls(process, asyncio.create_task(_copy(process, reader, output)))

    def signal(self, kind: signal.Signals) -> None:
        """Send it to the process and its group, if it still runs."""
        if self._process.returncode is None:
            _signal_group(self.pid, kind)

    async def end(self, data: Path, uid: str) -> int:
        """Wait for its end, end what it left behind, and return its exit code (negative: the signal)."""
        code = await self._process.wait()
        _signal_group(self.pid, signal.SIGKILL)
        await asyncio.to_thread(kill_marked, data, **{POD_VARIABLE: uid})
        await asyncio.wait({self._copying}, timeout=_OUTPUT_SECONDS)
        self._copying.cancel()
        return code


def kill_marked(data: Path, **variables: str) -> None:
    """Kill the processes with these variables."""
    for pid in processes.marked(data, **variables):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def kill_recorded(data: Path, folder: Path) -> None:
    """Kill what an earlier runner started for the pod of this folder."""
    with contextlib.suppress(OSError, ValueError):
        pid, started = (folder / _RECORD).read_text().split()
        if processes.start_mark(int(pid)) == started:
            _signal_group(int(pid), signal.SIGKILL)
    kill_marked(data, **{POD_VARIABLE: folder.name})


def _signal_group(pid: int, kind: signal.Signals) -> None:
    with contextlib.suppress(OSError):
        os.killpg(pid, kind)


async def _copy(
    process: local_command.StartedProcess, reader: asyncio.StreamReader, output: PodOutput
) -> None:
    try:
        while chunk := await reader.read(1 << 16):
            output.write(chunk)
    finally:
        process.close()
        output.finish()
