"""`gpupool doctor ENV`: the prerequisites of `up`, their state, and the remediation for each that is not met.

Arguments and printing only; `gpupool.adopt.doctor` looks.
"""

from __future__ import annotations

import sys
import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from gpupool.cli.findings.outputs import write_report
from gpupool.cli.output import EnvArgument, FindingFormatOption, print_line
from gpupool.cli.progress import progress
from gpupool.findings import exit_code
from gpupool.findings.terminal import BOLD, GREEN, PLAIN, RED, YELLOW

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpupool.adopt.doctor.model import CheckResult, Diagnosis
    from gpupool.adopt.doctor.reasons import CheckState, Reason


_WIDTH = 80


def doctor(
    env: EnvArgument,
    format: FindingFormatOption = "text",
    grant: Annotated[
        bool,
        typer.Option("--grant", help="Print a ClusterRole and binding that grant the missing permissions."),
    ] = False,
) -> None:
    """Check the prerequisites of `up`, and print what to do for each that is not met; change nothing.

    Checks this machine (programs, plugins, charts), the cluster (context, version, permissions, kinds,
    Karpenter's feature gates, operators), and what the file refers to (nodes, Secrets). Exits with 1 where
    `up` would fail.

    Example: gpupool doctor prod
    """
    from gpupool.adopt.doctor.checks import diagnose

    with progress(f"doctor {env}") as notify:
        diagnosis = diagnose(env, notify)
    if grant:
        _print_grant(diagnosis)
    elif format == "text":
        _print(diagnosis)
    else:
        write_report(diagnosis.finding_report(), format)
    raise typer.Exit(exit_code(finding.category for finding in diagnosis.finding_report().findings))


def _print_grant(diagnosis: Diagnosis) -> None:
    from gpupool.generators.emit import yaml_text

    sys.stdout.write("".join(f"---\n{yaml_text(manifest)}" for manifest in diagnosis.grant))


def _print(diagnosis: Diagnosis) -> None:
    rows = _gathered(diagnosis.results)
    colours = _colours() if sys.stdout.isatty() else {}
    widths = [max(len(cell) for cell in column) for column in zip(*map(_cells, rows), strict=True)]
    beside, below = sum(widths) + 4, widths[0] + 5
    for row in rows:
        check, state = _cells(row)
        shown = f"{colours.get(row.state, '')}{state:<{widths[1]}}{PLAIN if colours else ''}"
        text = row.message if row.subject == row.check else f"{row.subject}: {row.message}"
        first, *rest = _wrapped(text, _WIDTH - beside) or [""]
        print_line(f"{check:<{widths[0]}}  {shown}  {first}".rstrip())
        for line in rest:
            print_line(f"{' ' * beside}{line}")
        for number, line in enumerate(_wrapped(row.remediation, _WIDTH - below)):
            print_line(f"{' ' * (below - 3)}{'-> ' if number == 0 else '   '}{line}")
    if diagnosis.grant:
        name = diagnosis.environment
        print(f"\nMissing permissions, for an administrator: gpupool doctor {name} --grant")
    print()
    sys.stdout.write(f"{BOLD}{diagnosis.summary}{PLAIN}\n" if colours else f"{diagnosis.summary}\n")


def _gathered(results: Sequence[CheckResult]) -> list[CheckResult]:
    """The results, with those that say the same of nothing but their check on one line."""
    bare: dict[tuple[Reason, str], list[str]] = {}
    for row in results:
        if row.subject == row.check:
            bare.setdefault((row.reason, row.message), []).append(row.check)
    rows = []
    for row in results:
        checks = bare.get((row.reason, row.message), [])
        if row.subject != row.check or len(checks) == 1:
            rows.append(row)
        elif row.check == checks[0]:
            rows.append(replace(row, check="others", subject=f"{len(checks)} checks"))
    return rows


def _cells(row: CheckResult) -> tuple[str, str]:
    return row.check, row.state.value.replace("-", " ")


def _wrapped(text: str, width: int) -> list[str]:
    """Lines of at most `width` characters, broken between words; a longer word stands alone. Lines that the
    text has itself, with how far they are indented, stay."""
    lines = []
    for line in text.splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        lines += textwrap.wrap(
            line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
    return lines


def _colours() -> dict[CheckState, str]:
    from gpupool.adopt.doctor.reasons import CheckState

    return {
        CheckState.OK: GREEN,
        CheckState.MISSING: RED,
        CheckState.DIFFERS: RED,
        CheckState.UNKNOWN: YELLOW,
    }
