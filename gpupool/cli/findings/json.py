"""`-o json`: all findings of a command for machines. The keys are a contract (docs/findings.md)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, TextIO

from gpupool.cli.findings.values import json_values
from gpupool.findings import Finding, FindingReport, relative


def write(report: FindingReport, stream: TextIO) -> None:
    """Write one indented JSON object."""
    write_with({**report.more, "findings": []}, map(finding_json, report.findings), stream, depth=2)


def write_with(answer: dict[str, Any], rows: Iterable[dict[str, Any]], stream: TextIO, *, depth: int) -> None:
    """Write `answer`, indented, with `rows` in its last list, which is empty and `depth` levels deep. One row
    after the other: there may be tens of thousands."""
    before, _, after = json.dumps(answer, indent=2, ensure_ascii=False).rpartition("[]")
    margin = "\n" + "  " * depth
    stream.write(before + "[")
    between = ""
    for row in rows:
        stream.write(between + margin + json.dumps(row, indent=2, ensure_ascii=False).replace("\n", margin))
        between = ","
    stream.write(f"{margin[:-2] if between else ''}]{after}\n")


def finding_json(finding: Finding) -> dict[str, Any]:
    """A finding with every key, whether or not there is a value."""
    return {
        "severity": finding.severity.name,
        "category": finding.category.value,
        "code": finding.code,
        "object": finding.object,
        "file": relative(finding.file) if finding.file else "",
        "line": finding.line,
        "column": finding.column,
        "path": finding.path,
        "message": finding.what,
        "why": finding.why,
        "remediation": finding.remediation,
        "title": finding.title,
        "expression": finding.expression,
        "values": json_values(finding.values),
        **finding.details,
    }
