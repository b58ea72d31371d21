"""`-o text` where a command has no layout of its own: a headed block for each finding, and the summary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TextIO

from gpupool.cli.findings.values import spell
from gpupool.findings import Finding, FindingReport
from gpupool.findings.terminal import BOLD, PLAIN, in_sentence

VALUE_WIDTH = 200
"""Characters of a value that are shown; `-o json` has more of it."""


def write(report: FindingReport, stream: TextIO) -> None:
    """Print every finding and the summary. Colour only where `stream` is a terminal."""
    colour = stream.isatty()
    category = max([len(finding.category) for finding in report.findings], default=0)
    code = max([len(finding.code) for finding in report.findings], default=0)
    for finding in report.findings:
        head = _head(finding, category, code, colour)
        _write_lines(stream, [head, *(f"{' ' * category}  {line}" for line in _details(finding)), ""])
    _write_lines(stream, (f"note: {line}" for line in _not_applied(report)))
    _write_lines(stream, [report.summary])


def _write_lines(stream: TextIO, lines: Iterable[str]) -> None:
    stream.writelines(f"{in_sentence(line)}\n" for line in lines)


def _not_applied(report: FindingReport) -> Iterator[str]:
    """The codes that were applied to nothing, by the reason."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in report.judged.items():
        if reason:
            by_reason.setdefault(reason, []).append(name)
    for reason, names in sorted(by_reason.items()):
        yield f"{reason}: {', '.join(names)}"


def _head(finding: Finding, category_width: int, code_width: int, colour: bool) -> str:
    rest = "".join(f"  {part}" for part in (finding.object, finding.place) if part)
    category = finding.category.ljust(category_width)
    code = finding.code.ljust(code_width if rest else 0)
    if colour:
        category, code = f"{finding.severity.colour}{category}{PLAIN}", f"{BOLD}{code}{PLAIN}"
    return f"{category}  {code}{rest}"


def _details(finding: Finding) -> Iterator[str]:
    first, *rest = finding.what.split("\n")
    yield first
    yield from (f"  {line}" for line in rest)  # so that none looks like a row below
    rows: list[tuple[str, str]] = [
        ("at", finding.path),
        ("expression", " ".join(finding.expression.split())),
        *(("values", f"{name} = {spell(value, VALUE_WIDTH)}") for name, value in finding.values.items()),
        ("fix", " ".join(finding.remediation.split())),
    ]
    before = ""
    for label, text in rows:
        if text:
            yield f"{'' if label == before else label:<10}  {text}"
            before = label
