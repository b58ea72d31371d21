"""Run a program in a folder that it takes for `/`: `python -m gpupool.local.nvidia_operator.enter ROOT PROGRAM ARG...`

NVIDIA's controller reads its manifests from /opt/gpu-operator and the operating system from /host-etc/os-release,
as its image has them; neither path can be set. The program itself need not lie in the folder.
"""

from __future__ import annotations

import ctypes
import os
import sys

_NEW_USER_NAMESPACE = 0x10000000
"""CLONE_NEWUSER of linux/sched.h."""


def main(root: str, program: str, *arguments: str) -> None:
    """Change the root and become the program. Exits with a message where the system does not allow it."""
    descriptor = os.open(program, os.O_RDONLY)
    try:
        _change_root(root)
    except (OSError, AttributeError) as error:
        sys.exit(
            f"{program}: can't be given {root} as its root ({getattr(error, 'strerror', error)}); it needs Linux,"
            " and root or user namespaces (sysctl user.max_user_namespaces,"
            " kernel.apparmor_restrict_unprivileged_userns)"
        )
    os.execve(descriptor, [program, *arguments], os.environ)


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
