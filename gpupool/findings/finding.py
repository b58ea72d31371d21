"""One finding, and everything that one command found. Printed by `gpupool.cli.findings`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpupool.findings.severity import Category, Severity
from gpupool.findings.terminal import one_line

INVALID_FILE = "invalid-file"
"""The code of what is wrong with a file as such: its syntax, and the types of its fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong or worth knowing, in one place."""

    code: str
    """Which kind of thing, by a stable name: a policy, a rule, a check, a reason."""
    category: Category
    what: str
    """What is so, with the value."""
    why: str = ""
    """Why that matters."""
    remediation: str = ""
    """What to do; empty where there is nothing to do."""
    file: str = ""
    line: int = 0
    """From 1, as is `column`; 0 where it is not known."""
    column: int = 0
    path: str = ""
    """Where in the document or object, as `pools[1].sharing.layout`; empty for all of it."""
    object: str = ""
    """The object that it is about, as `Pod team-vision/train`."""
    title: str = ""
    """What `code` demands, in one line."""
    expression: str = ""
    """The CEL expression that failed."""
    values: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Figures and values behind it, by name."""
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """What else machines get: JSON values, by their keys."""
    ready: str = ""
    """A file, of several lines, that fixes it once it is filled in; usually empty."""

    @property
    def severity(self) -> Severity:
        return self.category.severity

    @property
    def place(self) -> str:
        """`file:line:column` as far as they are known, as one would type the file here."""
        if not self.file:
            return ""
        numbers = [str(number) for number in (self.line, self.column) if number]
        return ":".join([relative(self.file), *numbers])

    def __str__(self) -> str:
        """The finding on one line: place, object, path, what, remediation."""
        where = [f"{part}:" for part in (self.place, self.object, self.path) if part]
        todo = f"; {self.remediation}" if self.remediation else ""
        return one_line(" ".join([*where, f"{self.what}{todo}"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingReport:
    """Everything that one run of a command found, for machines and people."""

    command: str
    """As `policy check`."""
    findings: tuple[Finding, ...]
    summary: str
    """All of it in one line."""
    targets: tuple[str, ...] = ()
    """What was judged, as the user gave it."""
    judged: Mapping[str, str] = field(default_factory=dict)
    """The codes that were judged, those without findings included, and why one was not applied, if so."""
    seconds: float = 0.0
    """How long it took."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """What JSON has before the findings."""


def file_finding(
    file: str, line: int, column: int, path: str, what: str, remediation: str, code: str = INVALID_FILE
) -> Finding:
    """For what is wrong in one place of one file."""
    return Finding(
        code=code,
        category=Category.invalid,
        what=what,
        remediation=remediation,
        file=file,
        line=line,
        column=column,
        path=path,
    )


def ready_files(findings: Iterable[Finding]) -> tuple[str, ...]:
    """The files that `findings` offer, each once."""
    return tuple(dict.fromkeys(finding.ready for finding in findings if finding.ready))


def relative(file: str) -> str:
    """`file` from the working directory where it lies below it, with `/` between folders."""
    path = Path(file)
    if path.is_absolute():
        here = Path.cwd()
        path = path.relative_to(here) if path.is_relative_to(here) else path
    return path.as_posix()
