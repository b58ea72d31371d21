"""`policy check -o junit`: a test suite for each policy, for the test views of GitLab, Jenkins and others.

A case is one object that a policy denies or warns about, named so that the same case comes back in the next
run: these views compare runs by name, so a new violation shows as newly failed beside old ones. A policy
that finds nothing is one passed case; one that matched nothing is skipped. A warning passes, with its text
as output, because JUnit has no such result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO
from xml.etree.ElementTree import Element, ElementTree, SubElement, indent

from gpupool.cli.policy.outputs import place
from gpupool.cli.policy.text import VALUE_WIDTH
from gpupool.cli.policy.values import spell
from gpupool.policy_check.result import Check, idle_policies, is_idle, relative
from vapcheck import PolicyFinding


def write(check: Check, stream: TextIO) -> None:
    """Write one `testsuites` document."""
    suites: dict[str, list[PolicyFinding]] = {name: [] for name in sorted(check.report.matched)}
    for finding in check.findings:
        if is_idle(finding):
            continue  # its suite has a case that was skipped
        suites.setdefault(finding.rule, []).append(finding)
    idle = idle_policies(check)
    root = Element("testsuites", name="gpupool policy check", time=f"{check.seconds:.3f}")
    for name, findings in suites.items():
        _suite(root, name, findings, idle.get(name, ""))
    for attribute in ("tests", "failures", "skipped"):
        root.set(attribute, str(sum(int(suite.get(attribute, "0")) for suite in root)))
    root.set("errors", "0")
    _clean(root)
    indent(root)
    stream.write('<?xml version="1.0" encoding="UTF-8"?>\n')
    ElementTree(root).write(stream, encoding="unicode")
    stream.write("\n")


def _suite(root: Element, name: str, findings: Sequence[PolicyFinding], idle: str) -> None:
    suite = SubElement(root, "testsuite", name=name)
    cases: dict[tuple[str, str], list[PolicyFinding]] = {}
    for finding in findings:
        named = str(finding.object) if finding.object else place(finding) or name
        cases.setdefault((named, finding.file), []).append(finding)
    for (named, file), found in cases.items():
        case = SubElement(suite, "testcase", classname=name, name=named, time="0")
        if file:
            case.set("file", relative(file))
        _result(case, found)
    if not cases:
        case = SubElement(suite, "testcase", classname=name, name="every object", time="0")
        if idle:
            SubElement(case, "skipped", message=f"the policy {idle}")
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("errors", "0")
    suite.set("skipped", str(len(suite.findall("testcase/skipped"))))


def _result(case: Element, findings: Sequence[PolicyFinding]) -> None:
    denied = [finding for finding in findings if finding.level == "deny"]
    if denied:
        message = "; ".join(dict.fromkeys(finding.message for finding in denied))
        failure = SubElement(case, "failure", message=message, type=denied[0].reason or "deny")
        failure.text = "\n\n".join(_text(finding) for finding in denied)
    others = [finding for finding in findings if finding.level != "deny"]
    if others:
        SubElement(case, "system-out").text = "\n\n".join(_text(finding) for finding in others)


def _text(finding: PolicyFinding) -> str:
    rows = [
        (finding.level, finding.message),
        ("place", place(finding)),
        ("at", finding.path),
        ("expression", " ".join(finding.expression.split())),
        (
            "values",
            ", ".join(f"{name} = {spell(value, VALUE_WIDTH)}" for name, value in finding.values.items()),
        ),
        ("why", " ".join(finding.why.split())),
        ("fix", " ".join(finding.fix.split())),
    ]
    return "\n".join(f"{label}: {text}" for label, text in rows if text)


def _clean(root: Element) -> None:
    """Replace the characters that XML 1.0 can't hold, escaped or not (section 2.2)."""
    for element in root.iter():
        element.text = element.text and _held(element.text)
        element.attrib.update({name: _held(value) for name, value in element.attrib.items()})


def _held(text: str) -> str:
    return "".join(
        c if c in "\t\n\r" or " " <= c <= "\ud7ff" or "\ue000" <= c <= "\ufffd" or c >= "\U00010000" else "�"
        for c in text
    )
