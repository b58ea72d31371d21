"""Locks of Pulumi's file backend: which run holds them, which are left over, and removing those.

Every file in a stack's lock folder keeps the engine from starting, readable or not. Only locks that certainly
belong to no living run are removed.

How the engine works (pulumi 3.259, pkg/backend/diy/lock.go; gocloud.dev 0.46, blob/fileblob): it writes the
lock to `UUID.json.HEX.tmp`, renames that to `UUID.json`, and only then looks for locks of others; it deletes
its own at its end. So the lock of an engine that goes on is whole. On a full disk part of it may get the
final name, but that engine ends; else the machine went down before all of it was on the disk.
"""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil

from gpupool.findings import GpupoolError
from gpupool.infra import state_files

PATIENCE_SECONDS = 10.0
"""How long a lock of a living process is waited for: an engine that lost its parent needs a moment."""

SETTLED_SECONDS = 3.0
"""After so long without a change a temporary file is no longer being written: an engine needs about a
millisecond for the 120 bytes. Should one be stopped for longer just there, it fails to rename the file, and
ends before it has changed anything."""

_CLOCK_SECONDS = 2.0
"""What a process' start time, worked out from the time since boot, may differ from the clock."""
_ENGINE = "pulumi"
_TEMPORARY = re.compile(r"\.json\.[0-9a-f]+\.tmp$")
_MOST = 2**31
"""Process ids are smaller (pid_t is a signed 32-bit number)."""


class LockedError(GpupoolError):
    """Another run is at work on the stack, or a lock file is there whose owner can't be known."""


@dataclass(frozen=True)
class LockFile:
    """One file in the lock folder."""

    path: Path
    changed: float
    """When it was last changed, in seconds since the epoch."""
    pid: int | None = None
    """Of the engine that holds it; None where the file does not say."""
    user: str = ""
    host: str = ""
    since: str = ""
    problem: str = ""
    """Why the file does not name its owner."""
    readable: bool = True

    @property
    def temporary(self) -> bool:
        """Whether it was being written when its engine ended, and never got its name."""
        return _TEMPORARY.search(self.path.name) is not None

    def stale(self) -> bool:
        """Whether the process that it names is certainly gone; one of another machine never is."""
        if self.pid is None or self.host != socket.gethostname():
            return False
        try:
            process = psutil.Process(self.pid)
            if process.status() == psutil.STATUS_ZOMBIE:
                return True
            # The id was reused. A clock that was set in between makes an engine seem younger than
            # its lock, so one that is called like the engine counts as the owner whatever its age.
            younger = process.create_time() > _seconds(self.since) + _CLOCK_SECONDS
            return younger and not process.name().startswith(_ENGINE)
        except psutil.NoSuchProcess:
            return True
        except psutil.AccessDenied:
            return False


def locks(backend_url: str, project: str, stack: str) -> list[LockFile]:
    """Every file that locks the stack, by name; empty for backends that are not files.

    Folders and `.attrs` files are passed over, as the engine does. Raises LockedError where the folder
    can't be read.
    """
    root = state_files.folder(backend_url)
    if root is None:
        return []
    folder = root / "locks" / "organization" / project / stack
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix != ".attrs" and not path.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise LockedError(
            f"{folder}: can't be read ({error.strerror}), so another run may be working on {stack}; "
            f"nothing was changed. Make it readable for this user"
        ) from error
    return [lock for path in paths if (lock := _read(path)) is not None]


def _read(path: Path) -> LockFile | None:
    """The lock in one file; None where it no longer exists."""
    try:
        changed = path.lstat().st_mtime
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        return LockFile(path, 0.0, problem=f"can't be read ({error.strerror})", readable=False)
    try:
        row = json.loads(content)
    except (ValueError, RecursionError):
        return LockFile(path, changed, problem="is incomplete" if content else "is empty")
    if not _sound(row):
        return LockFile(path, changed, problem="does not name the process that holds it")
    return LockFile(path, changed, row["pid"], row["username"], row["hostname"], row["timestamp"])


def _sound(row: Any) -> bool:
    if not isinstance(row, dict) or type(row.get("pid")) is not int or not 0 < row["pid"] < _MOST:
        return False
    if not all(isinstance(row.get(key), str) for key in ("username", "hostname", "timestamp")):
        return False
    try:
        _seconds(row["timestamp"])
    except ValueError:
        return False
    return True


def _seconds(timestamp: str) -> float:
    """Seconds since the epoch of a time as Go writes it (RFC 3339). Raises ValueError."""
    return datetime.fromisoformat(timestamp).timestamp()


def clear_locks(backend_url: str, project: str, stack: str) -> int:
    """Remove locks whose process is gone, wait a little for the others; how many were removed.

    Raises LockedError naming the holder of the stack, or the file that does not name one.
    """
    removed, began = 0, time.monotonic()
    while held := locks(backend_url, project, stack):
        waited = time.monotonic() - began
        kept = []
        for lock in held:
            if not (lock.stale() or _abandoned(lock, backend_url, waited)):
                kept.append(lock)
            elif _remove(lock, stack):
                removed += 1
        # Locks that only have to settle are waited for even where the others will not go.
        patience = max(PATIENCE_SECONDS, SETTLED_SECONDS)
        if kept and (waited > patience or _hopeless(kept)):
            raise _in_use(kept[0], stack, backend_url)
        if kept:
            time.sleep(0.2)
    return removed


def _remove(lock: LockFile, stack: str) -> bool:
    """Remove a lock; False where another run was faster."""
    try:
        lock.path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise LockedError(
            f"{lock.path}: can't remove this lock, which a run on {stack} left behind "
            f"({error.strerror}); nothing was changed. Make the folder writable, or remove it yourself"
        ) from error
    return True


def _hopeless(kept: Iterable[LockFile]) -> bool:
    """Whether waiting can't help: no engine deletes a file that it did not make."""
    return all(not lock.readable or _strange(lock) for lock in kept)


def _strange(lock: LockFile) -> bool:
    """Whether no engine gives a file such a name."""
    return lock.path.suffix != ".json" and not lock.temporary


def _abandoned(lock: LockFile, backend_url: str, waited: float) -> bool:
    """Whether a file that names no owner belongs to no living run.

    A temporary one has none once it has settled. One with its final name was left by an engine or a machine
    that ended while writing it; to be sure that the lock of a live run was not damaged, no engine
    of this backend may be older than the file.
    """
    if lock.pid is not None or not lock.readable or _strange(lock):
        return False
    # By the clock, or, where the file server's is another, by what was waited here.
    if max(time.time() - lock.changed, waited) < SETTLED_SECONDS:
        return False
    return lock.temporary or not _engines(backend_url, lock.changed)


def _engines(backend_url: str, before: float) -> list[int]:
    """Process ids of engines on this machine that may hold a lock of the backend, written at `before`."""
    ours, found = state_files.folder(backend_url), []
    for process in psutil.process_iter(["name", "create_time"]):
        young = (process.info["create_time"] or 0.0) > before + _CLOCK_SECONDS
        if process.info["name"] != _ENGINE or young:
            continue
        try:
            url = process.environ().get("PULUMI_BACKEND_URL")
        except (psutil.Error, OSError):
            url = None  # another user's: it may be any backend
        if url is None or state_files.folder(url) == ours:
            found.append(process.pid)
    return found


def locked(backend_url: str, project: str, stack: str) -> LockedError:
    """The error for a run that found the stack locked after all: two were started at once."""
    held = locks(backend_url, project, stack)
    if held:
        return _in_use(held[0], stack, backend_url)
    return LockedError(f"another run was in progress on {stack}; nothing was changed. Run this command again")


def _in_use(lock: LockFile, stack: str, backend_url: str) -> LockedError:
    if lock.pid is not None:
        return LockedError(
            f"another run works on {stack}: process {lock.pid} of {lock.user} on {lock.host}, "
            f"since {lock.since}; nothing was changed. Wait for it; if that process is certainly not "
            f"a run of gpupool or pulumi, remove {lock.path}"
        )
    if _strange(lock):
        return LockedError(
            f"{lock.path}: not a Pulumi lock, but any file in this folder locks {stack}; nothing was "
            "changed. Move it elsewhere"
        )
    pids = _engines(backend_url, lock.changed) if lock.readable else []
    suspects = f", and process {', '.join(map(str, pids))} may hold it" if pids else ""
    return LockedError(
        f"{lock.path}: locks {stack} and {lock.problem}, so its owner is unknown{suspects}; nothing was "
        "changed. When no run of gpupool or pulumi works on this stack, on any machine that shares the "
        "folder, remove the file"
    )
