"""Run a program with a folder as its root: `python -m gpupool.local.nvidia_operator.enter ROOT PROGRAM ...`

NVIDIA's controller reads its manifests from /opt/gpu-operator and /host-etc/os-release, and neither path can
be set. The program itself need not be in the folder, but must be linked statically.
"""

from __future__ import annotations

import ctypes
import os
import sys

_NEW_USER_NAMESPACE = 0x10000000
"""CLONE_NEWUSER of linux/sched.h."""


def main(root: str, program: str, *arguments: str) -> None:
    """Change the root and become the program. Exits with a message where the system does not allow that."""
    descriptor = os.open(program, os.O_RDONLY)
    try:
        _change_root(root)
    except (OSError, AttributeError) as error:
        reason = getattr(error, "strerror", None) or error
        sys.exit(
            f"{program}: can't use {root} as its root: {reason}; run as root, or allow user namespaces "
            "(sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns); Linux only"
        )
    os.execve(descriptor, [program, *arguments], os.environ)  # noqa: S606 - no shell is wanted


def _change_root(root: str) -> None:
    """Root may change it; any other account in a user namespace of its own."""
    if os.geteuid() != 0:
        system = ctypes.CDLL(None, use_errno=True)
        if system.unshare(_NEW_USER_NAMESPACE) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
    os.chroot(root)
    os.chdir("/")


if __name__ == "__main__":
    main(*sys.argv[1:])
