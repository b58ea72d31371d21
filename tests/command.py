"""The `gpupool` command in this process, where modules are imported and policies compiled once for all tests.

That the console script does the same is for tests of streams, signals and imports, which start processes.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from gpupool.cli import main


def gpupool(*arguments: str, folder: Path, text: str = "") -> subprocess.CompletedProcess[str]:
    """What `gpupool ARGUMENTS` prints and exits with in a folder, with `text` as its standard input."""
    printed, reported = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    given = io.TextIOWrapper(io.BytesIO(text.encode()), "utf-8")
    code = 0
    with (
        chdir(folder),
        redirect_stdout(printed),
        redirect_stderr(reported),
        patch.object(sys, "stdin", given),
        patch.object(sys, "argv", ["gpupool", *arguments]),
        patch.dict(os.environ),
    ):
        try:
            main.run()
        except SystemExit as exit_:
            code = int(exit_.code or 0)
    said = [_text(stream) for stream in (printed, reported)]
    return subprocess.CompletedProcess(arguments, code, *said)


def _text(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()
