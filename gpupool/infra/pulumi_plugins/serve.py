"""What `pulumi` is in a shell after `gpupool local env` where no language host is installed: the engine, and
gpupool's language host while it runs.

    python -m gpupool.infra.pulumi_plugins.serve ENGINE ARGUMENT...

Nothing serves between two commands, so no port is left to which another account could bind later.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from gpupool.infra.pulumi_plugins import language


def main(engine: Path, arguments: list[str]) -> int:
    """Run the engine to its end; its exit code, or 128 and the number of the signal that ended it."""
    server, port = language.serve()
    started: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def pass_on(number: int, _: Any) -> None:
        if number == signal.SIGINT and _in_foreground():
            return  # the terminal sends Ctrl-C to the engine as well, and twice means at once
        if started:
            started[0].send_signal(number)
        else:
            early.append(number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, pass_on)
    variables = {**os.environ, "PULUMI_DEBUG_LANGUAGES": f"python:{port}"}
    child = subprocess.Popen([engine, *arguments], env=variables)
    started.append(child)
    for caught in early:
        child.send_signal(caught)
    code = child.wait()
    server.stop(None)
    return code if code >= 0 else 128 - code


def _in_foreground() -> bool:
    """Whether this process' group is the one that the terminal's keys reach."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    code = main(Path(sys.argv[1]), sys.argv[2:])
    sys.exit(code)
