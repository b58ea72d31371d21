"""Disk space that a run reserves for the state of its stack, and frees when the disk is full.

On a full disk the engine cuts its state off: gocloud.dev 0.46 (blob/fileblob) renames a file into place that
could not be written to its end, and after the next step the copy beside it is cut off too. But the engine
tries each write again after a second, for half a minute. So the reserved space is freed at once,
the engine writes its whole state, and is stopped.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
from pathlib import Path

from gpupool.findings import GpupoolError
from gpupool.infra import state_files
from gpupool.infra.engine import Command

_OBJECT_BYTES = 10 * 1024
"""Of one object in the state; 6.5 KiB on average were measured, of 101 objects."""
_COPIES = 5
"""Of the state that a run leaves or needs temporarily: itself, .bak, the temporary file, history, backup."""
_TIGHT_BYTES = 64 * 1024
"""The disk is full when less is free, or less than two copies of the state."""
_GIVE_UP_SECONDS = 10.0
"""How long the engine may take to end when the reserved space is used up as well."""


class DiskFullError(GpupoolError):
    """There is no space for the stack's state; the text names the folder."""


class DiskReserve:
    """The reserve of one run; nothing for a backend that is not files."""

    def __init__(self, backend_url: str, project: str, stack: str) -> None:
        self._root = state_files.folder(backend_url)
        self._project, self._stack = project, stack
        self._largest = 0
        self._since = 0.0
        self.message: str | None = None
        """The message if the disk was full; None if it was not."""

    @property
    def _file(self) -> Path | None:
        return self._root / f"{self._stack}.reserve" if self._root else None

    def take(self, objects: int) -> None:
        """Reserve space for the state of so many objects. Raises DiskFullError where there is none."""
        if self._file is None or self._root is None:
            return
        size = objects * _OBJECT_BYTES * _COPIES
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            with self._file.open("wb") as stream:
                for _ in range(0, size, _TIGHT_BYTES):  # really written: a sparse file keeps nothing
                    stream.write(bytes(_TIGHT_BYTES))
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            self.release()
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            advice = "Free some space there" if full else "Make it writable"
            raise DiskFullError(
                f"{self._root}: the disk has no space for a state of {objects} objects, {size // 1024} KiB "
                f"({error.strerror}); nothing was changed. {advice} and run this again"
            ) from error

    def release(self) -> None:
        """Free the reserved space, once or again."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # the next run writes over it
                self._file.unlink()

    def watch(self, command: Command) -> None:
        """Check the disk, and stop the engine when it is full. To be called several times a second."""
        if self._root is None or self._file is None or not self._tight(self._root):
            return
        if self.message is None:
            self.message = (
                f"{self._root}: the disk is full, so the run was stopped. Free some space there and run "
                "this command again: it finds objects that were created but not recorded"
            )
            self._since = time.monotonic()
            self.release()
            command.interrupt()
        elif time.monotonic() - self._since > _GIVE_UP_SECONDS:
            command.kill()

    def _tight(self, root: Path) -> bool:
        state = root / "stacks" / self._project / f"{self._stack}.json"
        try:
            self._largest = max(self._largest, state.stat().st_size)
            return shutil.disk_usage(root).free < max(_TIGHT_BYTES, 2 * self._largest)
        except OSError:  # no state yet
            return False
