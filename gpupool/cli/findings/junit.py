"""`-o junit`: a test suite for each code, for the test views of GitLab, Jenkins and others.

A case is one object or place with findings, named so that the same case comes back in the next run: these
views compare runs by name, so a new finding shows as newly failed beside old ones. A code that was judged
without a finding is one passed case; one that was not applied is skipped. Warnings and notices pass, with
their text as output, because JUnit has no such result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO
from xml.etree.ElementTree import Element, ElementTree, SubElement, indent

from gpupool.cli.findings.text import VALUE_WIDTH
from gpupool.cli.findings.values import spell
from gpupool.findings import Finding, FindingReport, relative


def write(report: FindingReport, stream: TextIO) -> None:
    """Write one `testsuites` document."""
    suites: dict[str, list[Finding]] = {name: [] for name in sorted(report.judged)}
    for finding in report.findings:
        suites.setdefault(finding.code, []).append(finding)
    root = Element("testsuites", name=f"gpupool {report.command}", time=f"{report.seconds:.3f}")
    for name, findings in suites.items():
        _suite(root, name, findings, report.judged.get(name, ""))
    for attribute in ("tests", "failures", "skipped"):
        root.set(attribute, str(sum(int(suite.get(attribute, "0")) for suite in root)))
    root.set("errors", "0")
    _clean(root)
    indent(root)
    stream.write('<?xml version="1.0" encoding="UTF-8"?>\n')
    ElementTree(root).write(stream, encoding="unicode")
    stream.write("\n")


def _suite(root: Element, name: str, findings: Sequence[Finding], idle: str) -> None:
    suite = SubElement(root, "testsuite", name=name)
    cases: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        named = finding.object or finding.place or name
        cases.setdefault((named, finding.file), []).append(finding)
    for (named, file), found in cases.items():
        case = SubElement(suite, "testcase", classname=name, name=named, time="0")
        if file:
            case.set("file", relative(file))
        _result(case, found)
    if not cases:
        case = SubElement(suite, "testcase", classname=name, name="every object", time="0")
        if idle:
            SubElement(case, "skipped", message=idle)
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("errors", "0")
    suite.set("skipped", str(len(suite.findall("testcase/skipped"))))


def _result(case: Element, findings: Sequence[Finding]) -> None:
    failed = [finding for finding in findings if finding.severity.exit_code]
    if failed:
        message = "; ".join(dict.fromkeys(finding.what for finding in failed))
        failure = SubElement(case, "failure", message=message, type=failed[0].category)
        failure.text = "\n\n".join(_text(finding) for finding in failed)
    others = [finding for finding in findings if not finding.severity.exit_code]
    if others:
        SubElement(case, "system-out").text = "\n\n".join(_text(finding) for finding in others)


def _text(finding: Finding) -> str:
    rows = [
        (finding.category.value, finding.what),
        ("place", finding.place),
        ("at", finding.path),
        ("expression", " ".join(finding.expression.split())),
        (
            "values",
            ", ".join(f"{name} = {spell(value, VALUE_WIDTH)}" for name, value in finding.values.items()),
        ),
        ("why", " ".join(finding.why.split())),
        ("remediation", " ".join(finding.remediation.split())),
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
