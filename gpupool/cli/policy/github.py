"""`policy check -o github`: workflow commands that GitHub turns into annotations of a pull request.

Format and escapes: docs.github.com, "Workflow commands for GitHub Actions", and `actions/toolkit`,
packages/core/src/command.ts. GitHub shows ten errors and ten warnings of a step, so denials come first.
"""

from __future__ import annotations

from typing import TextIO

from gpupool.cli.policy.text import summary
from gpupool.policy_check.result import Check, is_idle, relative
from gpupool.terminal import in_sentence
from vapcheck import PolicyFinding

_COMMANDS = {"deny": "error", "warn": "warning", "audit": "notice"}


def write(check: Check, stream: TextIO) -> None:
    """Write one command for each finding, and the summary as plain text."""
    findings = [finding for finding in check.findings if not is_idle(finding)]
    for level, command in _COMMANDS.items():
        for finding in findings:
            if finding.level == level:
                stream.write(f"::{command} {_properties(finding)}::{_data(_message(finding))}\n")
    stream.write(f"{_data(in_sentence(summary(check)))}\n")


def _properties(finding: PolicyFinding) -> str:
    named = f"{finding.rule}: {finding.object}" if finding.object else finding.rule
    properties = {
        "file": in_sentence(relative(finding.file)) if finding.file else "",
        "line": str(finding.line or ""),
        "col": str(finding.column or ""),
        "title": in_sentence(named),
    }
    return ",".join(f"{name}={_property(value)}" for name, value in properties.items() if value)


def _message(finding: PolicyFinding) -> str:
    lines = [finding.message]
    if finding.path:
        lines.append(f"at {finding.path}")
    if finding.expression:
        lines.append(f"expression: {' '.join(finding.expression.split())}")
    if finding.fix:
        lines.append(f"fix: {' '.join(finding.fix.split())}")
    return "\n".join(in_sentence(line) for text in lines for line in text.splitlines())


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
