"""The outputs of `policy check -o`, and the modules that write them. The one place where an output is
registered.

An output is a module `gpupool.cli.policy.<name>` with `write(check, stream)`. It prints a finished check and
judges nothing; only the module that is asked for is imported.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from enum import StrEnum
from importlib import import_module
from typing import TextIO, cast

from gpupool.cli.progress import progress
from gpupool.policy_check.check import Question, run
from gpupool.policy_check.result import Check, relative
from vapcheck import PolicyFinding


class CheckOutput(StrEnum):
    """The outputs of `policy check`."""

    text = "text"
    json = "json"
    sarif = "sarif"
    junit = "junit"
    github = "github"


_UTF_8 = (CheckOutput.json, CheckOutput.sarif, CheckOutput.junit)
"""Outputs that are read as UTF-8, whatever the terminal has."""


def answer(question: Question, output: CheckOutput) -> int:
    """Judge, print, and return the exit code: 1 when anything is denied or can't be read."""
    with progress("policy check") as notify:
        check = run(question, notify)
    write(check, output)
    return int(check.report.denied)


def write(check: Check, output: CheckOutput, stream: TextIO | None = None) -> None:
    """Write `check` in the form `output`, to stdout unless `stream` is given."""
    module = import_module(f"gpupool.cli.policy.{output.value}")
    if stream is None and output in _UTF_8 and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    cast("Callable[[Check, TextIO], None]", module.write)(check, stream or sys.stdout)


def place(finding: PolicyFinding) -> str:
    """`file:line:column` as far as they are known, as one would type the file here."""
    if not finding.file:
        return ""
    numbers = [str(number) for number in (finding.line, finding.column) if number]
    return ":".join([relative(finding.file), *numbers])
