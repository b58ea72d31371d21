"""`policy check -o sarif`: SARIF 2.1.0 (OASIS, 27 March 2020), for code scanning of GitHub and others.

GitHub takes no result without a file, so what has no place of its own is put at the target that was checked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import quote

from gpupool.cli.policy.json import write_with
from gpupool.cli.policy.values import json_values
from gpupool.markdown_text import plain
from gpupool.policy_check.result import Check, idle_policies, is_idle, relative
from gpupool.terminal import visible
from vapcheck import PolicyFinding

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {"deny": "error", "warn": "warning", "audit": "note"}


def write(check: Check, stream: TextIO) -> None:
    """Write a log with one run."""
    from gpupool import __version__

    findings = [finding for finding in check.findings if not is_idle(finding)]
    rules = _rules(findings, check.report.matched)
    indexes = {rule["id"]: index for index, rule in enumerate(rules)}
    run = {
        "tool": {"driver": {"name": "gpupool", "version": __version__, "rules": rules}},
        "invocations": [_invocation(check)],
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"%SRCROOT%": {"description": {"text": "Root of the checkout."}}},
        "results": [],
    }
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    results = (_result(finding, indexes[finding.rule], check) for finding in findings)
    write_with(log, results, stream, depth=4)


def _rules(findings: Sequence[PolicyFinding], matched: Any) -> list[dict[str, Any]]:
    """One for each policy; those that found nothing too, so that a viewer can distinguish fixed from not
    run."""
    first = dict.fromkeys(matched) | {finding.rule: finding for finding in reversed(findings)}
    return [_rule(name, finding) for name, finding in sorted(first.items())]


def _rule(name: str, finding: PolicyFinding | None) -> dict[str, Any]:
    rule: dict[str, Any] = {"id": name}
    if finding is None:
        return rule
    rule["shortDescription"] = {"text": finding.title or name}
    if finding.why:
        rule["fullDescription"] = {"text": finding.why}
    parts = [text for text in (finding.why, finding.fix and f"How to fix: {finding.fix}") if text]
    if parts:
        bold = [plain(text).replace("How to fix:", "**How to fix:**", 1) for text in parts]
        rule["help"] = {"text": "\n\n".join(parts), "markdown": "\n\n".join(bold)}
    rule["defaultConfiguration"] = {"level": _LEVELS[finding.level]}
    return rule


def _invocation(check: Check) -> dict[str, Any]:
    """A policy that applied to nothing is reported for the run: a result would be an alert to be fixed."""
    notes = [
        {"level": "note", "message": {"text": f"The policy {name} {reason}."}}
        for name, reason in idle_policies(check).items()
    ]
    return {"executionSuccessful": True, **({"toolExecutionNotifications": notes} if notes else {})}


def _result(finding: PolicyFinding, index: int, check: Check) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": _LEVELS[finding.level],
        "message": {"text": _message(finding)},
        "locations": [_location(finding, check)],
        "partialFingerprints": {"gpupoolFinding/v1": _fingerprint(finding)},
    }
    properties = {
        "origin": finding.origin,
        "binding": finding.binding,
        "reason": finding.reason,
        "expression": finding.expression,
        "values": json_values(finding.values),
    }
    result["properties"] = {name: value for name, value in properties.items() if value}
    return result


def _message(finding: PolicyFinding) -> str:
    named = f"{finding.object}: " if finding.object else ""
    where = f" (at {finding.path})" if finding.path else ""
    fix = f"\nHow to fix: {finding.fix}" if finding.fix else ""
    return _without_links(f"{named}{finding.message}{where}{fix}")


def _without_links(text: str) -> str:
    """`text` without what a viewer would obey: control characters, and embedded links (section 3.11.6)."""
    return visible(text).replace("](", "\\](")


def _location(finding: PolicyFinding, check: Check) -> dict[str, Any]:
    region: dict[str, int] = {"startLine": max(finding.line, 1)}
    if finding.column:
        region["startColumn"] = finding.column
    file = finding.file or next((target for target in check.targets if target != "-"), "stdin")
    location: dict[str, Any] = {
        "physicalLocation": {"artifactLocation": _artifact(file), "region": region},
    }
    if finding.object:
        named = str(finding.object)
        full = f"{named}: {finding.path}" if finding.path else named
        location["logicalLocations"] = [
            {"name": finding.object.name, "fullyQualifiedName": full, "kind": "object"}
        ]
    return location


def _artifact(file: str) -> dict[str, str]:
    name = relative(file)
    if Path(name).is_absolute():
        return {"uri": Path(name).as_uri()}
    return {"uri": quote(name), "uriBaseId": "%SRCROOT%"}


def _fingerprint(finding: PolicyFinding) -> str:
    """The same finding after lines have moved and files were renamed has the same one."""
    parts = (finding.rule, finding.binding or "", str(finding.object or ""), finding.path, finding.expression)
    alone = () if finding.object else (finding.message,)
    return hashlib.sha256("\0".join((*parts, *alone)).encode()).hexdigest()[:32]
