"""Run a program of PostgreSQL for root, as which it refuses to run: python FILE UID GID PROGRAM ARGUMENT...

In a user namespace of its own the one account that there is, root, is called UID (user_namespaces(7)):
program and files belong to root alone, and it has none of root's privileges. UID needs an entry in passwd,
for initdb. It exits with 126 where the system allows no such namespace. The standard library alone, to start
quickly.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

NOT_ALLOWED = 126
_CLONE_NEWUSER = 0x10000000


def main(uid: str, gid: str, program: str, *arguments: str) -> None:
    """Become the program; returns only by an exception."""
    real_uid, real_gid = os.getuid(), os.getgid()
    try:
        if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWUSER):
            raise OSError(ctypes.get_errno(), "unshare")
        for name, text in (
            ("setgroups", "deny"),
            ("gid_map", f"{gid} {real_gid} 1"),
            ("uid_map", f"{uid} {real_uid} 1"),
        ):
            Path("/proc/self", name).write_text(text)
    except (OSError, AttributeError) as error:
        sys.stderr.write(f"no user namespace: {error}\n")
        sys.exit(NOT_ALLOWED)
    os.execv(program, [program, *arguments])  # noqa: S606 - that is what it is for


if __name__ == "__main__":
    main(*sys.argv[1:])
