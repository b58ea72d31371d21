"""What people type for `gpupool jobs submit` -> the values of the request. Errors name the option.

Only what the command line has in another form than the API; the queue checks the rest. This module must not
ask it.
"""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path
from typing import Any

from gpupool.findings import UsageError
from vapcheck.reading import read_file

_MAX_BYTES = 8 << 20
"""Of a request of jobs: more than the queue accepts (gpupool.queue.api)."""


def content(file: Path) -> Any:
    """The JSON in a file; `-` is stdin."""
    try:
        if str(file) == "-":
            text = sys.stdin.read(_MAX_BYTES)
        else:
            text = read_file(file, _MAX_BYTES, streams=True).decode()
        return json.loads(text, parse_float=_number, parse_constant=_number)
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}; name a file with JSON") from error
    except ValueError as error:
        raise UsageError(f"{file}: not JSON: {error}") from error
    except RecursionError:
        raise UsageError(
            f"{file}: not JSON: nested too deep; nest objects and arrays at most 20 deep"
        ) from None


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number of JSON; write one of at most 1.79e308, or null")
    return number


def usd(option: str, amount: float) -> float:
    """Of an amount that is a number."""
    if not math.isfinite(amount):
        raise UsageError(f"{option} {amount}: write an amount of USD such as 2.50")
    return amount


def variables(option: str, pairs: list[str]) -> dict[str, str]:
    """Of each NAME=VALUE."""
    for pair in pairs:
        if "=" not in pair:
            raise UsageError(f"{option} {pair}: write NAME=VALUE")
    each_once(option, [pair.partition("=")[0] for pair in pairs])
    return dict(pair.split("=", 1) for pair in pairs)


def each_once(option: str, values: list[str]) -> list[str]:
    """What may be repeated, with another value each time."""
    for position, value in enumerate(values):
        if value in values[:position]:
            raise UsageError(f"{option} {value} is given twice; give it once")
    return values


def volumes(option: str, texts: list[str]) -> list[dict[str, Any]]:
    """Of each CLAIM:PATH or CLAIM:PATH:ro."""
    mounts: list[dict[str, Any]] = []
    for text in texts:
        claim, _, path = text.partition(":")
        path, _, mode = path.partition(":")
        if not claim or not path.startswith("/") or mode not in ("", "ro"):
            raise UsageError(f"{option} {text}: write CLAIM:PATH, or CLAIM:PATH:ro, such as data:/data:ro")
        mounts.append({"claim": claim, "path": path, "read_only": mode == "ro"})
    each_once(option, [mount["path"] for mount in mounts])
    return mounts


def seconds(option: str, text: str) -> int:
    """Of a duration such as 1h30m."""
    from gpupool.environment.spec.field_types import duration_seconds

    if not re.fullmatch(r"([0-9]{1,9}[smhd])+", text):
        raise UsageError(f"{option} {text}: write a duration such as 90m, 4h or 1h30m")
    return duration_seconds(text)
