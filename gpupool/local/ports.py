"""Ports of this machine for what the local control plane and its job queue start.

It must not listen on them any longer than it takes to choose.
"""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Mapping

from gpupool.programs.failures import LocalError


def free_ports(wanted: Mapping[str, int]) -> dict[str, int]:
    """A free port for each key, the wanted one if it is not 0 and free. All are held until all are chosen.

    Raises LocalError where none is found.
    """
    chosen, held = {}, []
    for key, port in wanted.items():
        # Not of those that systems give to connections: one could take it before the component listens.
        others = random.SystemRandom().sample(range(20_000, 30_000), 100)
        for number in (*([port] if port else []), *others):
            listener = socket.socket()
            held.append(listener)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                listener.bind(("127.0.0.1", number))
                chosen[key] = number
                break
        else:
            raise LocalError("a hundred ports of 127.0.0.1 between 20000 and 30000 are in use; free some")
    for listener in held:
        listener.close()
    return chosen


def free_port() -> int:
    """A free port, for one process. Raises LocalError where none is found."""
    return free_ports({"one": 0})["one"]
