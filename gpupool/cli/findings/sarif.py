"""`-o sarif`: SARIF 2.1.0 (OASIS, 27 March 2020), for code scanning of GitHub and others.

GitHub takes no result without a file, so what has no place of its own is put at the target that was checked.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import quote

from gpupool.cli.findings.json import write_with
from gpupool.cli.findings.values import json_values
from gpupool.findings import Finding, FindingReport, relative
from gpupool.findings.markdown_text import plain
from gpupool.findings.terminal import visible

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def write(report: FindingReport, stream: TextIO) -> None:
    """Write a log with one run."""
    from gpupool import __version__

    rules = _rules(report)
    indexes = {rule["id"]: index for index, rule in enumerate(rules)}
    run = {
        "tool": {"driver": {"name": "gpupool", "version": __version__, "rules": rules}},
        "invocations": [_invocation(report)],
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"%SRCROOT%": {"description": {"text": "Root of the checkout."}}},
        "results": [],
    }
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    results = (_result(finding, indexes[finding.code], report) for finding in report.findings)
    write_with(log, results, stream, depth=4)


def _rules(report: FindingReport) -> list[dict[str, Any]]:
    """One for each code; those that found nothing too, so that a viewer can distinguish fixed from not
    run."""
    first = dict.fromkeys(report.judged) | {finding.code: finding for finding in reversed(report.findings)}
    return [_rule(name, finding) for name, finding in sorted(first.items())]


def _rule(name: str, finding: Finding | None) -> dict[str, Any]:
    rule: dict[str, Any] = {"id": name}
    if finding is None:
        return rule
    rule["shortDescription"] = {"text": finding.title or name}
    if finding.why:
        rule["fullDescription"] = {"text": finding.why}
    parts = [
        text for text in (finding.why, finding.remediation and f"How to fix: {finding.remediation}") if text
    ]
    if parts:
        bold = [plain(text).replace("How to fix:", "**How to fix:**", 1) for text in parts]
        rule["help"] = {"text": "\n\n".join(parts), "markdown": "\n\n".join(bold)}
    rule["defaultConfiguration"] = {"level": finding.severity.sarif}
    return rule


def _invocation(report: FindingReport) -> dict[str, Any]:
    """A code that was applied to nothing is reported for the run: a result would be an alert to be fixed."""
    notes = [
        {"level": "note", "message": {"text": f"{name}: {reason}."}}
        for name, reason in report.judged.items()
        if reason
    ]
    return {"executionSuccessful": True, **({"toolExecutionNotifications": notes} if notes else {})}


def _result(finding: Finding, index: int, report: FindingReport) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": finding.severity.sarif,
        "message": {"text": _message(finding)},
        "locations": [_location(finding, report)],
        "partialFingerprints": {"gpupoolFinding/v1": _fingerprint(finding)},
    }
    properties = {
        "category": finding.category.value,
        **finding.details,
        "expression": finding.expression,
        "values": json_values(finding.values),
    }
    result["properties"] = {name: value for name, value in properties.items() if value}
    return result


def _message(finding: Finding) -> str:
    named = f"{finding.object}: " if finding.object else ""
    where = f" (at {finding.path})" if finding.path else ""
    todo = f"\nHow to fix: {finding.remediation}" if finding.remediation else ""
    return _without_links(f"{named}{finding.what}{where}{todo}")


def _without_links(text: str) -> str:
    """`text` without what a viewer would obey: control characters, and embedded links (section 3.11.6)."""
    return visible(text).replace("](", "\\](")


def _location(finding: Finding, report: FindingReport) -> dict[str, Any]:
    region: dict[str, int] = {"startLine": max(finding.line, 1)}
    if finding.column:
        region["startColumn"] = finding.column
    file = finding.file or next((target for target in report.targets if target != "-"), "stdin")
    location: dict[str, Any] = {
        "physicalLocation": {"artifactLocation": _artifact(file), "region": region},
    }
    if finding.object:
        named = finding.object
        full = f"{named}: {finding.path}" if finding.path else named
        location["logicalLocations"] = [
            {
                "name": named.rpartition("/")[2].rpartition(" ")[2],
                "fullyQualifiedName": full,
                "kind": "object",
            }
        ]
    return location


def _artifact(file: str) -> dict[str, str]:
    name = relative(file)
    if Path(name).is_absolute():
        return {"uri": Path(name).as_uri()}
    return {"uri": quote(name), "uriBaseId": "%SRCROOT%"}


def _fingerprint(finding: Finding) -> str:
    """The same finding after lines have moved and files were renamed has the same one."""
    parts = (
        finding.code,
        str(finding.details.get("binding") or ""),
        finding.object,
        finding.path,
        finding.expression,
    )
    alone = () if finding.object else (finding.what,)
    return hashlib.sha256("\0".join((*parts, *alone)).encode()).hexdigest()[:32]
