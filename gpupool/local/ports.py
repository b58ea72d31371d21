"""Ports of this machine for what the local control plane and its job queue start.

It must not listen on them: that is for those for whom they are chosen.
"""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Mapping

from gpupool.programs.failures import LocalError

_KEPT = 200
"""Ports that a process keeps for its components, of those chosen last. Tests choose thousands."""
_reserved: dict[int, socket.socket] = {}
"""Ports chosen by this process. A component listens seconds after its port was chosen; that other processes
don't choose it meanwhile, the UDP port of the same number is bound, which nothing here uses."""


def free_ports(wanted: Mapping[str, int]) -> dict[str, int]:
    """A free port for each key, the wanted one if it is not 0 and free. Other processes choose others.

    Raises LocalError where none is found.
    """
    chosen: dict[str, int] = {}
    for key, port in wanted.items():
        # Not of those that systems give to connections: one could take it before the component listens.
        others = set(random.SystemRandom().sample(range(20_000, 30_000), 100)) - _reserved.keys()
        for number in (*([port] if port else []), *others):
            if number not in chosen.values() and _free(number) and _reserve(number):
                chosen[key] = number
                break
        else:
            raise LocalError("a hundred ports of 127.0.0.1 between 20000 and 30000 are in use; free some")
    return chosen


def free_port() -> int:
    """A free port, for one process. Raises LocalError where none is found."""
    return free_ports({"one": 0})["one"]


def _free(number: int) -> bool:
    with socket.socket() as probe, contextlib.suppress(OSError):
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", number))
        return True
    return False


def _reserve(number: int) -> bool:
    """Whether the port is this process' now, or has been."""
    if number in _reserved:
        return True
    mark = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        mark.bind(("127.0.0.1", number))
    except OSError:
        mark.close()
        return False
    _reserved[number] = mark
    if len(_reserved) > _KEPT:
        _reserved.pop(next(iter(_reserved))).close()
    return True
