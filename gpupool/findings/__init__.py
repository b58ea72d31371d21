"""Findings with their place and severity, and the errors that carry them.

A command that judges something makes a FindingReport of Findings; `gpupool.cli.findings` prints it in every
format. This package must not read files or depend on what it reports about.
"""

from gpupool.findings.errors import GpupoolError, NoAnswer, SpecError, UsageError
from gpupool.findings.finding import Finding, FindingReport, file_finding, ready_files, relative
from gpupool.findings.severity import Category, Severity, exit_code

__all__ = [
    "Category",
    "Finding",
    "FindingReport",
    "GpupoolError",
    "NoAnswer",
    "Severity",
    "SpecError",
    "UsageError",
    "exit_code",
    "file_finding",
    "ready_files",
    "relative",
]
