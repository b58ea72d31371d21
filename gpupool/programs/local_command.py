"""Start a command of a pod or a job as a process of this machine, with as little of ours as can be.

It gets no variable but PATH and LANG, no descriptor but its output, and a folder of its own as HOME, TMPDIR
and working folder. Where root starts it, it runs as the account "nobody", which reads nothing of root's; an
ordinary user can't do that, and there it has that user's rights. In both cases network, processor and memory
are the machine's, files that are for everybody can be read, and commands see and may signal each other.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import os
import pwd
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

KEPT = ("PATH", "LANG")
ACCOUNT = "nobody"
"""Runs the commands where root starts them."""
_PR_SET_NO_NEW_PRIVS = 38  # linux/prctl.h


def account() -> pwd.struct_passwd | None:
    """Whose rights a command has; None for those of the caller, who is not root."""
    return pwd.getpwnam(ACCOUNT) if os.geteuid() == 0 else None


def make_folder(folder: Path) -> None:
    """Make `folder` for commands alone; what is above it must be there, and passable for them."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    owner = account()
    if owner is not None:
        os.chown(folder, owner.pw_uid, owner.pw_gid, follow_symlinks=False)


def environment(home: Path) -> dict[str, str]:
    """What a command gets besides its own variables."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    return {**kept, "HOME": str(home), "TMPDIR": str(home)}


class StartedProcess:
    """A process, whose end is awaited."""

    def __init__(self, process: subprocess.Popen[bytes], output: asyncio.ReadTransport) -> None:
        self.pid = process.pid
        self.close = output.close
        """Reads no more of what it writes."""
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        threading.Thread(target=self._watch, args=(process,), daemon=True).start()

    @property
    def returncode(self) -> int | None:
        """Its exit code, the negative number of the signal that ended it, or None while it runs."""
        return self._ended.result() if self._ended.done() else None

    async def wait(self) -> int:
        """Wait for its end; the exit code."""
        return await asyncio.shield(self._ended)

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        code = process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed: it is awaited no more
            self._ended.get_loop().call_soon_threadsafe(self._ended.set_result, code)


async def start(
    argv: Sequence[str], variables: Mapping[str, str], home: Path
) -> tuple[StartedProcess, asyncio.StreamReader]:
    """Start it in `home` in a session of its own; the process, and what it writes to stdout and stderr.

    Raises OSError where the program is not found or can't be run, ValueError for a text that can't be passed.
    """
    _renounce()
    owner = account()
    rights: dict[str, Any] = (
        {} if owner is None else {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
    )
    source, sink = os.pipe()
    try:
        if owner is not None:
            os.fchown(sink, owner.pw_uid, owner.pw_gid)  # otherwise it could not open /dev/stdout
        # Not the event loop's own way: uvloop's can't give a process another account.
        process = subprocess.Popen(
            argv,
            env=variables,
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            umask=0o077,
            **rights,
        )
    except OSError as error:
        os.close(source)
        place = shutil.which(argv[0], path=variables.get("PATH"))
        if owner is None or error.errno not in (errno.EACCES, errno.ENOENT):
            raise
        if place is None:  # folders of PATH that the account can't enter are in the way of the answer
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)) from error
        raise PermissionError(
            errno.EACCES,
            f"commands run as account {ACCOUNT} where gpupool runs as root, and {ACCOUNT} can't get to "
            f"{place}; install it where everybody may run it, or run gpupool as an ordinary user",
        ) from error
    except BaseException:
        os.close(source)
        raise
    finally:
        os.close(sink)
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(source, "rb")
    )
    return StartedProcess(process, transport), reader


def _renounce() -> None:
    """No program that this process starts from now on gets more rights than it has (prctl(2), Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
