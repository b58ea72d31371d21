"""Start, recognise and stop child processes that outlive the command that started them.

A process is ours only if its pid, the time it was started and its whole command line are what was
recorded, or if its environment carries this instance's mark; a pid that the system has since given to another
process is never signalled. Nothing here depends on what the processes are.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

_KILLED_SECONDS = 30.0
"""How long a killed process may take to go: a busy machine frees hundreds of megabytes first."""

MARK = "GPUPOOL_CONTROL_PLANE"
"""Environment variable of every process of an instance; its value is the instance's data folder."""


@dataclass(frozen=True)
class RunningProcess:
    """A process as recorded when it was started."""

    pid: int
    started: str
    """Opaque start mark, see `start_mark`."""
    argv: tuple[str, ...]
    fingerprint: str
    """Of everything it was started with; differs when it would be started otherwise today."""

    def as_dict(self) -> dict[str, Any]:
        """Plain values for the state file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RunningProcess:
        """The inverse of `as_dict`. Raises KeyError or TypeError for a state file that isn't one of ours."""
        return cls(int(values["pid"]), str(values["started"]), tuple(values["argv"]), values["fingerprint"])


def start_mark(pid: int) -> str | None:
    """What distinguishes two processes with one pid; None when there is no such process or it is a zombie.

    On Linux the start time in clock ticks since boot (field 22 of /proc/PID/stat), which unlike wall-clock
    time doesn't move when the clock is set.
    """
    if sys.platform == "linux":
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return None
        fields = text[text.rindex(")") + 2 :].split()
        return None if fields[0] in "ZX" else f"ticks:{fields[19]}"
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else f"time:{process.create_time():.2f}"
    except psutil.Error:
        return None


def alive(running: RunningProcess) -> bool:
    """Whether exactly the recorded process runs."""
    with contextlib.suppress(OSError):
        os.waitpid(running.pid, os.WNOHANG)  # reaps it if it was our own child; no matter if not
    if start_mark(running.pid) != running.started:
        return False
    try:
        arguments = tuple(psutil.Process(running.pid).cmdline())
    except psutil.Error:
        return False
    # For a moment after its start a process has no arguments yet: Linux fills them in late in execve.
    return not arguments or arguments == running.argv


def spawn(
    argv: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path, fingerprint: str
) -> RunningProcess:
    """Start `argv` in a session of its own with `folder` as working folder and mark, logging to `log`.

    The environment is what the process needs and no more: the caller's variables must not change how
    a control plane behaves. What it writes is for its owner alone. Raises OSError when the program can't be
    started.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as stream:
        os.fchmod(stream.fileno(), 0o600)  # an earlier release's was for everybody to read
        stream.write(f"--- started {time.strftime('%Y-%m-%dT%H:%M:%S%z')}\n".encode())
        stream.flush()
        process = subprocess.Popen(
            list(argv),
            cwd=folder,
            env={**environment, MARK: str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            umask=0o077,
        )
    process.returncode = 0  # it is meant to outlive us: no ResourceWarning, no wait at exit
    return RunningProcess(process.pid, start_mark(process.pid) or "", tuple(argv), fingerprint)


def marked(folder: Path, **more: str) -> list[int]:
    """Pids of every live process with the mark of the instance in `folder`, recorded or not.

    `more` are further variables that its environment must have.
    """
    wanted = {MARK: str(folder), **more}.items()
    found = []
    for process in psutil.process_iter():
        try:
            if wanted <= process.environ().items() and start_mark(process.pid):
                found.append(process.pid)
        except (psutil.Error, OSError):
            continue
    return [pid for pid in found if pid != os.getpid()]


def descendants(pids: Iterable[int]) -> list[int]:
    """Pids of all processes that these have started, and those in turn, as far as their parents live."""
    found = []
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            found += [child.pid for child in psutil.Process(pid).children(recursive=True)]
    return found


def memory_mib(pid: int) -> float | None:
    """Memory that a process has for itself in MiB; None when it has gone.

    On Linux pages of files are left out (its program, etcd's database): the kernel takes them back where
    memory is short, and how many are in memory depends on what else ran.
    """
    try:
        memory = psutil.Process(pid).memory_info()
    except psutil.Error:
        return None
    return round((memory.rss - getattr(memory, "shared", 0)) / 2**20, 1)


def stop(pids: Iterable[int], grace: float) -> None:
    """Ask the processes to end, and kill those that are still there after `grace` seconds.

    The caller has made sure that they are ours (`alive` or `marked`).
    """
    marks = {pid: start_mark(pid) for pid in pids}
    _signal(marks, kill=False)
    if _wait_gone(marks, grace):
        return
    _signal(marks, kill=True)
    _wait_gone(marks, _KILLED_SECONDS)


def _signal(marks: Mapping[int, str | None], kill: bool) -> None:
    for pid, mark in marks.items():
        if mark is None or start_mark(pid) != mark:
            continue
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            process.kill() if kill else process.terminate()
            process.resume()  # a stopped process would never see the request


def _wait_gone(marks: Mapping[int, str | None], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while True:
        for pid in marks:
            with contextlib.suppress(OSError):
                os.waitpid(pid, os.WNOHANG)
        if not any(mark and start_mark(pid) == mark for pid, mark in marks.items()):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
