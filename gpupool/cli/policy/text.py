"""`policy check -o text`: findings for people, each a headed block, and one line that sums up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TextIO

from gpupool.cli.policy.outputs import place
from gpupool.cli.policy.values import spell
from gpupool.policy_check.result import NO_MATCH, Check, idle_policies, is_idle
from gpupool.terminal import BOLD, CYAN, PLAIN, RED, YELLOW, in_sentence
from vapcheck import PolicyFinding

_COLOURS = {"deny": RED, "warn": YELLOW, "audit": CYAN}
VALUE_WIDTH = 200
"""Characters of a value that are shown; `-o json` has more of it."""


def write(check: Check, stream: TextIO) -> None:
    """Print every finding and the summary. Colour only where `stream` is a terminal."""
    colour = stream.isatty()
    findings = [finding for finding in check.findings if not is_idle(finding)]
    level = max([len(finding.level) for finding in findings], default=0)
    rule = max([len(finding.rule) for finding in findings], default=0)
    for finding in findings:
        head = _head(finding, level, rule, colour)
        _write_lines(stream, [head, *(f"{' ' * level}  {line}" for line in _details(finding)), ""])
    if check.report.objects:
        _write_lines(stream, (f"note: {line}" for line in _idle(check)))
    _write_lines(stream, [summary(check)])


def _write_lines(stream: TextIO, lines: Iterable[str]) -> None:
    stream.writelines(f"{in_sentence(line)}\n" for line in lines)


def _idle(check: Check) -> Iterator[str]:
    """The policies that were applied to nothing, by the reason."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in idle_policies(check).items():
        by_reason.setdefault(reason, []).append(name)
    for reason, names in sorted(by_reason.items()):
        what, _, cause = reason.partition(": ")
        said = "matched nothing here" if what == NO_MATCH else "not applied"
        said += f", {cause}" if cause else ""
        yield f"{_policies(len(names))} {said}: {', '.join(names)}"


def _policies(count: int) -> str:
    return f"{count} polic{'y' if count == 1 else 'ies'}"


def summary(check: Check) -> str:
    """`2 denied, 1 warning: 31 objects, 12 policies from policies (0.2 s)`."""
    report = check.report
    counts = [
        f"{count} {word if count == 1 else words}"
        for count, word, words in (
            (check.count("deny"), "denied", "denied"),
            (check.count("warn"), "warning", "warnings"),
            (
                sum(finding.level == "audit" and not is_idle(finding) for finding in report.findings),
                "audited",
                "audited",
            ),
        )
        if count
    ]
    source = f" from {', '.join(check.policies_from)}" if check.policies_from else ""
    objects = f"{report.objects} object{'' if report.objects == 1 else 's'}"
    policies = _policies(len(report.matched))
    if report.matched and not report.objects:
        compiled = f"{policies} compile{'s' if len(report.matched) == 1 else ''}"
        return f"{', '.join(counts) or 'fine'}: {objects}; {compiled} ({check.seconds:.1f} s)"
    return f"{', '.join(counts) or 'fine'}: {objects}, {policies}{source} ({check.seconds:.1f} s)"


def _head(finding: PolicyFinding, level_width: int, rule_width: int, colour: bool) -> str:
    named = str(finding.object) if finding.object else ""
    rest = "".join(f"  {part}" for part in (named, place(finding)) if part)
    level, rule = finding.level.ljust(level_width), finding.rule.ljust(rule_width if rest else 0)
    if colour:
        level, rule = f"{_COLOURS[finding.level]}{level}{PLAIN}", f"{BOLD}{rule}{PLAIN}"
    return f"{level}  {rule}{rest}"


def _details(finding: PolicyFinding) -> Iterator[str]:
    first, *rest = finding.message.split("\n")
    yield first
    yield from (f"  {line}" for line in rest)  # so that none looks like a row below
    rows: list[tuple[str, str]] = [
        ("at", finding.path),
        ("expression", " ".join(finding.expression.split())),
        *(("values", f"{name} = {spell(value, VALUE_WIDTH)}") for name, value in finding.values.items()),
        ("fix", " ".join(finding.fix.split())),
    ]
    before = ""
    for label, text in rows:
        if text:
            yield f"{'' if label == before else label:<10}  {text}"
            before = label
