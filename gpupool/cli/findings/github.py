"""`-o github`: workflow commands that GitHub turns into annotations of a pull request.

Format and escapes: docs.github.com, "Workflow commands for GitHub Actions", and `actions/toolkit`,
packages/core/src/command.ts. GitHub shows ten errors and ten warnings of a step, so errors come first.
"""

from __future__ import annotations

from typing import TextIO

from gpupool.findings import Finding, FindingReport, relative
from gpupool.findings.terminal import in_sentence


def write(report: FindingReport, stream: TextIO) -> None:
    """Write one command for each finding, and the summary as plain text."""
    for finding in sorted(report.findings, key=lambda one: one.severity.rank):
        stream.write(f"::{finding.severity.name} {_properties(finding)}::{_data(_message(finding))}\n")
    stream.write(f"{_data(in_sentence(report.summary))}\n")


def _properties(finding: Finding) -> str:
    named = f"{finding.code}: {finding.object}" if finding.object else finding.code
    properties = {
        "file": in_sentence(relative(finding.file)) if finding.file else "",
        "line": str(finding.line or ""),
        "col": str(finding.column or ""),
        "title": in_sentence(named),
    }
    return ",".join(f"{name}={_property(value)}" for name, value in properties.items() if value)


def _message(finding: Finding) -> str:
    lines = [finding.what]
    if finding.path:
        lines.append(f"at {finding.path}")
    if finding.expression:
        lines.append(f"expression: {' '.join(finding.expression.split())}")
    if finding.remediation:
        lines.append(f"remediation: {' '.join(finding.remediation.split())}")
    return "\n".join(in_sentence(line) for text in lines for line in text.splitlines())


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
