"""The outputs of `policy check -o`, and the modules that write them. The one place where an output is
registered.

An output is a module `cli.policy_<name>` with `write(check, stream)`. It prints a finished check and judges
nothing; only the module that is asked for is imported.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import TextIO, cast

from vapcheck import PolicyFinding, Report

UNMATCHED = "unmatched-policy"
"""The engine's rule for policies that were evaluated on no object."""
UNPARAMETERISED = "missing-parameter"
"""The engine's rule for policies that were applied to no object because a parameter is missing."""
NO_MATCH = "matched no object"


class Output(StrEnum):
    """The outputs of `policy check`."""

    text = "text"
    json = "json"
    sarif = "sarif"
    junit = "junit"
    github = "github"


_UTF_8 = (Output.json, Output.sarif, Output.junit)
"""Outputs that are read as UTF-8, whatever the terminal has."""


@dataclass(frozen=True, slots=True)
class Check:
    """One run of `policy check`: what was found, and what it was asked."""

    report: Report
    targets: tuple[str, ...]
    """As the user gave them."""
    policies_from: tuple[str, ...]
    """The files and folders whose policies were used, as the user would name them."""
    seconds: float
    """Wall time of reading and judging."""

    @property
    def findings(self) -> list[PolicyFinding]:
        """In the order of reading: by file and line; then denials before warnings."""
        order = ("deny", "warn", "audit")
        return sorted(
            self.report.findings,
            key=lambda one: (one.file, one.line, order.index(one.level), one.rule),
        )

    def count(self, level: str) -> int:
        """How many findings have this level."""
        return sum(finding.level == level for finding in self.report.findings)


def write(check: Check, output: Output, stream: TextIO | None = None) -> None:
    """Write `check` in the form `output`, to stdout unless `stream` is given."""
    module = import_module(f"gpupool.cli.policy_{output.value}")
    if stream is None and output in _UTF_8 and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    cast("Callable[[Check, TextIO], None]", module.write)(check, stream or sys.stdout)


def is_idle(finding: PolicyFinding) -> bool:
    """Whether it only says that a policy was applied to nothing, which is not an error."""
    return finding.rule in (UNMATCHED, UNPARAMETERISED) and finding.level == "audit"


def idle_policies(check: Check) -> dict[str, str]:
    """The policies that were applied to nothing, by name, and why: `NO_MATCH`, perhaps with a cause, or what
    is missing."""
    reasons = {name: NO_MATCH for name, matched in check.report.matched.items() if not matched}
    for finding in check.report.findings:
        if is_idle(finding) and finding.object and finding.object.name in reasons:
            reasons[finding.object.name] = finding.message
    return dict(sorted(reasons.items()))


def place(finding: PolicyFinding) -> str:
    """`file:line:column` as far as they are known, as one would type the file here."""
    if not finding.file:
        return ""
    numbers = [str(number) for number in (finding.line, finding.column) if number]
    return ":".join([relative(finding.file), *numbers])


def relative(file: str) -> str:
    """`file` from the working directory where it lies below it, with `/` between folders."""
    path = Path(file)
    if path.is_absolute():
        here = Path.cwd()
        path = path.relative_to(here) if path.is_relative_to(here) else path
    return path.as_posix()


def one_line(text: str) -> str:
    """`text` without anything that a terminal or a log would act on, on one line."""
    return "".join(c if c.isprintable() else " " if c.isspace() else ascii(c)[1:-1] for c in text)
