"""What gpupool says when something is wrong: a finding with its place, and the errors that carry them.

    GpupoolError            anything a user can cause; printed as its message, never as a traceback
      SpecError             one or more findings in an environment file
      UsageError            the command line asks for something that does not exist (exit code 2)
      NoAnswer              what was asked has no answer, so that how it ended is unknown (exit code 3)

This module must not read files or depend on the fields it reports about.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpupool.terminal import one_line


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One thing that is wrong in one place of one file. Lines and columns count from 1."""

    file: str
    line: int
    column: int
    path: str
    """Where in the document, as `pools[1].sharing.layout`; empty for the document as a whole."""
    message: str
    """What is wrong, with the value."""
    hint: str
    """What would be right."""
    ready: str = ""
    """A file, of several lines, that fixes it once it is filled in; usually empty."""

    def __str__(self) -> str:
        where = f" {self.path}:" if self.path else ""
        return one_line(f"{self.file}:{self.line}:{self.column}:{where} {self.message}; {self.hint}")

    def as_dict(self) -> dict[str, str | int]:
        """The finding with the keys that `validate --format json` promises."""
        return {name: getattr(self, name) for name in ("file", "line", "column", "path", "message", "hint")}


def ready_files(findings: Iterable[Finding]) -> tuple[str, ...]:
    """The files that `findings` offer, each once."""
    return tuple(dict.fromkeys(finding.ready for finding in findings if finding.ready))


class GpupoolError(Exception):
    """Anything that a user's input or surroundings can cause. Its text is fit to be shown."""

    exit_code = 1


class UsageError(GpupoolError):
    """The command asks for something that does not exist, an environment for example."""

    exit_code = 2


class NoAnswer(GpupoolError):
    """Contact with who was asked is lost. What was asked for may have been done, and goes on."""

    exit_code = 3


class SpecError(GpupoolError):
    """An environment file that can't be used, with every finding in the order of the file."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = tuple(sorted(findings))
        super().__init__("\n".join(str(finding) for finding in self.findings))
