"""What people type for `gpupool jobs submit` -> the values of the request.

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


def content(file: Path | None) -> Any:
    """The JSON in a file; `-` is stdin."""
    if file is None:
        return None
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
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


def usd(amount: float | None) -> float | None:
    """Of an amount that is a number."""
    if amount is not None and not math.isfinite(amount):
        raise UsageError(f"--budget {amount}: write an amount of USD such as 2.50")
    return amount


def variables(given: list[str] | None) -> dict[str, str] | None:
    """Of each NAME=VALUE."""
    for pair in given or ():
        if "=" not in pair:
            raise UsageError(f"--env {pair}: write NAME=VALUE")
    return dict(pair.split("=", 1) for pair in given) if given else None


def seconds(text: str | None, option: str = "--timeout") -> int | None:
    """Of a duration such as 1h30m, the value of `option`."""
    from gpupool.spec.field_types import duration_seconds

    if text is None:
        return None
    if not re.fullmatch(r"([0-9]{1,9}[smhd])+", text):
        raise UsageError(f"{option} {text}: write a duration such as 90m, 4h or 1h30m")
    return duration_seconds(text)
