"""The errors that are printed as their message, never as a traceback, with the exit code of each.

GpupoolError            anything a user can cause
  SpecError             one or more findings in an environment file
  UsageError            the command line asks for something that does not exist (exit code 2)
  NoAnswer              what was asked has no answer, so that how it ended is unknown (exit code 3)
"""

from __future__ import annotations

from collections.abc import Sequence

from gpupool.findings.finding import Finding


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
        self.findings = tuple(
            sorted(findings, key=lambda one: (one.file, one.line, one.column, one.path, one.what))
        )
        super().__init__("\n".join(str(finding) for finding in self.findings))
