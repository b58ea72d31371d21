"""The account that the embedded PostgreSQL runs as, and how its programs are started so.

It is the account of the caller. PostgreSQL refuses root: for root it runs in a user namespace, where root has
another name, so that no other account of the machine owns the data (`as_another_uid`). Where the system
allows none, as in many containers, it runs as an account of the system that nothing else runs as. Folders
above its data and its programs that it can't pass then are made passable (mode o+x).
"""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from gpupool.queue.store import as_another_uid
from gpupool.queue.store.errors import StoreError

_SYSTEM_UIDS = range(1, 1000)
"""Of accounts that come with a system (Debian policy 9.2.2, systemd's UIDS-GIDS)."""


@dataclass(frozen=True)
class ServerAccount:
    """Who owns the data and runs the server."""

    uid: int = field(default_factory=os.geteuid)
    gid: int = field(default_factory=os.getegid)
    alias: tuple[int, int] | None = None
    """What root is called in the namespace of its own."""

    def command(self, program: Path) -> tuple[list[str], dict[str, Any]]:
        """The beginning of a command line, and options of `subprocess.run`."""
        if self.alias is not None:
            return [*_renamed(*self.alias), str(program)], {}
        own = self.uid == os.geteuid()
        options = {} if own else {"user": self.uid, "group": self.gid, "extra_groups": []}
        return [str(program)], options


def needed(data: Path) -> ServerAccount:
    """The account for a server on the folder `data`. Raises StoreError where there is none for root."""
    if os.geteuid() != 0:
        return ServerAccount()
    guest = pwd.getpwnam("nobody")
    alias = (guest.pw_uid, guest.pw_gid)
    if _namespaces(*alias):
        return ServerAccount(alias=alias)
    owner = data.stat().st_uid if data.exists() else 0
    known = [process.info["uids"] for process in psutil.process_iter(["uids"])]
    used = {uids.effective for uids in known if uids is not None}
    for entry in sorted(pwd.getpwall(), key=lambda entry: entry.pw_uid != owner):
        system = entry.pw_uid in _SYSTEM_UIDS and entry.pw_uid != guest.pw_uid
        if system and (entry.pw_uid == owner or entry.pw_uid not in used):
            return ServerAccount(entry.pw_uid, entry.pw_gid)
    raise StoreError(
        "PostgreSQL does not run as root, this system allows no user namespaces, and every system account "
        "runs something else; run this as an ordinary user, or give a database URL"
    )


def may_have_owned(uid: int) -> bool:
    """Whether data of this account can only have been written by a server of ours, or by root: what others
    wrote, its configuration above all, would be run as root."""
    return uid == 0 or (uid in _SYSTEM_UIDS and uid != pwd.getpwnam("nobody").pw_uid)


def _renamed(uid: int, gid: int) -> list[str]:
    return [sys.executable, "-I", "-S", as_another_uid.__file__, str(uid), str(gid)]


@cache
def _namespaces(uid: int, gid: int) -> bool:
    """Whether this system allows a user namespace."""
    trial = [*_renamed(uid, gid), sys.executable, "-I", "-S", "-c", ""]
    return subprocess.run(trial, check=False, capture_output=True, cwd="/").returncode == 0


def let_pass(uid: int, path: Path) -> None:
    """Let account `uid` through the folders above `path`; what is in them keeps its own mode."""
    for folder in path.parents:
        if folder.exists():
            there = folder.stat()
            if not there.st_mode & 0o001 and there.st_uid != uid:
                folder.chmod(there.st_mode | 0o001)
