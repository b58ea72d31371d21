"""The answer of `policy check`: judged, printed, and its exit code."""

from __future__ import annotations

from gpupool.cli.findings.outputs import write_report
from gpupool.cli.progress import progress
from gpupool.findings import exit_code
from gpupool.policy.check import Question, run


def answer(question: Question, output: str) -> int:
    """Judge, print, and return the exit code: 1 when anything is denied or can't be read."""
    with progress("policy check") as notify:
        report = run(question, notify).finding_report()
    write_report(report, output)
    return exit_code(finding.category for finding in report.findings)
