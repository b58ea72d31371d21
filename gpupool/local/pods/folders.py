"""Folders that the account of pods' commands passes on the way to its own.

They are ours: in a folder where everybody may write, what somebody else put there is not used.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from gpupool.programs.failures import LocalError


def make_passable(folder: Path) -> None:
    """Make `folder` so that others get through it and list nothing. Raises LocalError for somebody else's."""
    try:
        folder.mkdir(mode=0o711)
        folder.chmod(0o711)
    except FileExistsError:
        there = folder.lstat()
        if not stat.S_ISDIR(there.st_mode) or there.st_uid != os.geteuid():
            raise LocalError(f"{folder} is not a folder owned by this account; remove it") from None
