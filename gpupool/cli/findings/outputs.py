"""The formats in which every command prints its findings, and the one function that prints them.

A format is a module `gpupool.cli.findings.<name>` with `write(report, stream)`. It prints a finished report
and judges nothing; only the module that is asked for is imported.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Literal, TextIO, cast

from gpupool.findings import FindingReport

FindingFormat = Literal["text", "json", "sarif", "junit", "github"]
"""What `-o` takes of each command that has findings."""
_UTF_8 = ("json", "sarif", "junit")
"""Formats that are read as UTF-8, whatever the terminal has."""


def write_report(report: FindingReport, format: str, stream: TextIO | None = None) -> None:
    """Write `report` in `format`, to stdout unless `stream` is given."""
    module = import_module(f"gpupool.cli.findings.{format}")
    if stream is None and format in _UTF_8 and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    cast("Callable[[FindingReport, TextIO], None]", module.write)(report, stream or sys.stdout)
