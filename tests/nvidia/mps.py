"""Runs NVIDIA's MPS control daemon on a node, until it has started what it starts."""

from __future__ import annotations

import subprocess

from tests.nvidia.node import MPS, Ended, Node

_STARTED = "Starting log tailer"
"""The daemon's last line about a resource that it has started; it looks for signals after that."""


def started(node: Node, strategy: str | None = None) -> list[str]:
    """What the daemon gave nvidia-smi and nvidia-cuda-mps-control. Raises Ended where it gives up."""
    command = node.command(MPS)
    process = subprocess.Popen(
        command, env=node.environment(strategy), stderr=subprocess.PIPE, text=True, bufsize=1
    )
    log = []
    try:
        assert process.stderr is not None
        for line in process.stderr:
            log.append(line)
            if _STARTED in line:
                process.terminate()
        code = process.wait(timeout=30)
    finally:
        process.kill()
    if code != 0:
        raise Ended("".join(log))
    return node.commands()
