"""What people type for `gpupool jobs submit` -> the values of the request.

Only what the command line has in another form than the API; the queue checks the rest. This module must not
ask it.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from gpupool.findings import UsageError


def content(file: Path | None) -> Any:
    """The JSON in a file; `-` is stdin."""
    if file is None:
        return None
    try:
        return json.loads(sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}; name a file with JSON") from error
    except ValueError as error:
        raise UsageError(f"{file}: not JSON: {error}") from error


def variables(given: list[str] | None) -> dict[str, str] | None:
    """Of each NAME=VALUE."""
    for pair in given or ():
        if "=" not in pair:
            raise UsageError(f"--env {pair}: write NAME=VALUE")
    return dict(pair.split("=", 1) for pair in given) if given else None


def seconds(text: str | None) -> int | None:
    """Of a duration such as 1h30m."""
    from gpupool.spec.field_types import duration_seconds

    if text is None:
        return None
    if not re.fullmatch(r"([0-9]{1,9}[smhd])+", text):
        raise UsageError(f"--timeout {text}: write a duration such as 90m, 4h or 1h30m")
    return duration_seconds(text)
