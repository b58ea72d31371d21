"""The background process behind `gpupool local env`: serves provider and language host to plain `pulumi`.

    python -m gpupool.pulumi_plugins.serve FILE PROVIDER_PORT LANGUAGE_PORT

Notes its ports in FILE and ends when that file names another process or is gone (as after
`gpupool local down`), or at SIGTERM.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path

from gpupool.pulumi_plugins import env as pulumi_env
from gpupool.pulumi_plugins import language as pulumi_language
from gpupool.pulumi_plugins import provider as pulumi_provider

_LOOK_SECONDS = 5.0


def main(file: Path, provider_port: int, language_port: int) -> None:
    """Serve until stopped. A port that is now in use is replaced by a free one."""
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    signal.signal(signal.SIGINT, lambda *_: stopped.set())
    servers = []
    bound = []
    for module, wanted in ((pulumi_provider, provider_port), (pulumi_language, language_port)):
        try:
            server, port = module.serve(wanted)
        except RuntimeError:
            server, port = module.serve(0)
        servers.append(server)
        bound.append(port)
    pulumi_env.write(file, *bound)
    while not stopped.wait(_LOOK_SECONDS):
        if not _still_ours(file):
            break
    for server in servers:
        server.stop(1).wait()


def _still_ours(file: Path) -> bool:
    try:
        return bool(json.loads(file.read_text())["pid"] == os.getpid())
    except (OSError, ValueError, KeyError):
        return False


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
