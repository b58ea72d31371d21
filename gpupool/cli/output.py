"""How every verb prints: aligned tables for people, JSON for machines, errors with their place.

It does not depend on what is printed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

import typer

from gpupool.address_secrets import without_passwords
from gpupool.findings import Finding, GpupoolError, ready_files
from gpupool.terminal import BOLD, PLAIN, RED, json_at

Format = Literal["text", "json"]
"""What `--format` takes."""
FormatOption = Annotated[Format, typer.Option("--format", help="text for people, json for machines.")]
EnvArgument = Annotated[str, typer.Argument(metavar="ENV", help="An environment's name or a file's path.")]


def print_json(value: Any) -> None:
    """Print `value` as indented JSON with the keys in the order given (stable for machines)."""
    sys.stdout.write(json_at(sys.stdout, json.dumps(value, indent=2, ensure_ascii=False)) + "\n")


def print_answer(format: Format, data: Any, print_text: Callable[[], None]) -> None:
    """The answer as JSON, or as text for people."""
    if format == "json":
        print_json(data)
    else:
        print_text()


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], right: Sequence[str] = ()) -> None:
    """Print an aligned table. `right` names the columns whose cells are numbers (right-aligned)."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max([len(title), *(len(row[index]) for row in cells)]) for index, title in enumerate(columns)]
    bold, plain = (BOLD, PLAIN) if sys.stdout.isatty() else ("", "")
    titles = [title.upper() for title in columns]
    for number, row in enumerate([titles, *cells]):
        padded = [
            cell.rjust(width) if columns[index] in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        line = "  ".join(padded).rstrip()
        sys.stdout.write((f"{bold}{line}{plain}" if number == 0 else line) + "\n")


def print_error(message: str) -> None:
    """Print one line of what went wrong to stderr."""
    red, plain = (RED, PLAIN) if sys.stderr.isatty() else ("", "")
    sys.stderr.write(f"{red}{without_passwords(message)}{plain}\n")


def print_failure(error: GpupoolError, as_json: bool) -> None:
    """Report what went wrong: to stderr for people, and as {errors, findings} to stdout for machines.

    An error that carries a result has been printed by its verb, which has more detail than the error.
    """
    findings = getattr(error, "findings", ())
    print_error(str(error))
    for ready in ready_files(row for row in findings if isinstance(row, Finding)):
        sys.stderr.write(f"\n{ready}\n")
    if findings:
        print_error(f"{len(findings)} finding{'s' if len(findings) != 1 else ''}; nothing was changed")
    if as_json and getattr(error, "result", None) is None:
        print_json({"errors": without_passwords(str(error)).splitlines(), **finding_json(findings)})


def finding_json(findings: Iterable[Any]) -> Mapping[str, Any]:
    """The contract of `validate --format json`: {findings: [{file, line, column, path, message, hint}]}.

    Findings of policy have the keys of `policy check --format json`.
    """
    return {"findings": [_finding(finding) for finding in findings]}


def _finding(finding: Any) -> Mapping[str, Any]:
    if isinstance(finding, Finding):
        return finding.as_dict()
    from gpupool.cli.policy.json import finding_json as policy_finding

    return policy_finding(finding)
