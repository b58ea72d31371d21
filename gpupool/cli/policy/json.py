"""`policy check -o json`: the whole check for machines. The keys are a contract (docs/policies.md)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, TextIO

from gpupool.cli.policy.values import json_values
from gpupool.policy_check.result import Check, relative
from vapcheck import PolicyFinding


def write(check: Check, stream: TextIO) -> None:
    """Write one indented JSON object."""
    report = check.report
    answer = {
        "denied": report.denied,
        "summary": {
            "deny": check.count("deny"),
            "warn": check.count("warn"),
            "audit": check.count("audit"),
            "objects": report.objects,
            "evaluations": report.evaluations,
        },
        "targets": list(check.targets),
        "policiesFrom": list(check.policies_from),
        "policies": [{"name": name, "matched": count} for name, count in report.matched.items()],
        "findings": [],
    }
    write_with(answer, map(finding_json, check.findings), stream, depth=2)


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


def finding_json(finding: PolicyFinding) -> dict[str, Any]:
    """A finding with every key, whether or not there is a value."""
    ref = finding.object
    return {
        "level": finding.level,
        "policy": finding.rule,
        "origin": finding.origin,
        "binding": finding.binding,
        "object": ref
        and {
            "apiVersion": ref.api_version,
            "kind": ref.kind,
            "namespace": ref.namespace,
            "name": ref.name,
        },
        "file": relative(finding.file) if finding.file else "",
        "line": finding.line,
        "column": finding.column,
        "path": finding.path,
        "message": finding.message,
        "reason": finding.reason,
        "expression": finding.expression,
        "values": json_values(finding.values),
        "title": finding.title,
        "why": finding.why,
        "fix": finding.fix,
    }
