"""How every verb prints: aligned tables for people, JSON for machines, errors with their place.

It does not depend on what is printed.
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import Annotated, Any, Literal

import typer

from gpupool.cli.findings.outputs import FindingFormat
from gpupool.findings import Finding, FindingReport, GpupoolError, ready_files
from gpupool.findings.address_secrets import without_passwords
from gpupool.findings.terminal import BOLD, PLAIN, RED, in_sentence, json_at, one_line, visible

Format = Literal["text", "json"]
"""What `--format` takes."""
FormatOption = Annotated[Format, typer.Option("--format", help="text for people, json for machines.")]
FindingFormatOption = Annotated[
    FindingFormat,
    typer.Option("-o", "--format", help="text for people; json, sarif, junit or github for machines."),
]
MACHINE_FORMATS = ("json", "sarif", "junit", "github")
EnvArgument = Annotated[
    str, typer.Argument(metavar="ENV", help="An environment's name or the path of a file.")
]


def print_json(value: Any) -> None:
    """Print `value` as indented JSON with the keys in the order given (stable for machines)."""
    sys.stdout.write(json_at(sys.stdout, json.dumps(value, indent=2, ensure_ascii=False)) + "\n")


def print_answer(format: Format, data: Any, print_text: Callable[[], None]) -> None:
    """The answer as JSON, or as text for people."""
    if format == "json":
        print_json(data)
    else:
        print_text()


WIDTH = 80
"""Columns of text output; only a word that is longer than its share makes a longer line."""
_GAP = "  "
_SHORT = 12
"""Characters of a cell that is never broken."""


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], right: Sequence[str] = (), *, fit: bool = False
) -> None:
    """Print an aligned table. `right` names the columns whose cells are numbers (right-aligned). With `fit`,
    cells of a table that is wider than WIDTH are broken between words. A cell's own line breaks are shown as
    escapes.
    """
    titles = [title.upper() for title in columns]
    table = [titles, *([one_line(str(cell)) for cell in row] for row in rows)]
    widths = _widths(table, WIDTH if fit else None)
    bold, plain = (BOLD, PLAIN) if sys.stdout.isatty() else ("", "")
    for number, row in enumerate(table):
        pieces = [_broken(cell, width) for cell, width in zip(row, widths, strict=True)]
        for parts in zip_longest(*pieces, fillvalue=""):
            padded = [
                cell.rjust(width) if title in right else cell.ljust(width)
                for title, cell, width in zip(columns, parts, widths, strict=True)
            ]
            line = _GAP.join(padded).rstrip()
            sys.stdout.write((f"{bold}{line}{plain}" if number == 0 else line) + "\n")


def _widths(table: Sequence[Sequence[str]], most: int | None) -> list[int]:
    """Of each column. Where all are more than `most`, the widest are cut down first, none below its longest
    word or short cell: figures with their units stay on one line."""
    by_column = list(zip(*table, strict=True))
    widths = [max(map(len, cells)) for cells in by_column]
    least = [
        max(map(len, [*title.split(" "), *(piece for cell in cells for piece in _pieces(cell))]))
        for title, *cells in by_column
    ]
    while most is not None and sum(widths) + len(_GAP) * (len(widths) - 1) > most:
        breakable = [at for at, width in enumerate(widths) if width > least[at]]
        if not breakable:
            break
        widths[max(breakable, key=widths.__getitem__)] -= 1
    return widths


def _pieces(cell: str) -> list[str]:
    """What of a cell stays on one line."""
    return [cell] if len(cell) <= _SHORT else cell.split(" ")


def _broken(cell: str, width: int) -> list[str]:
    """The lines of a cell. Spaces that align its parts stay where all of it fits."""
    if len(cell) <= width:
        return [cell]
    return textwrap.wrap(cell, width, break_long_words=False, break_on_hyphens=False) or [""]


def print_line(text: str) -> None:
    """Print `text` on one line, whatever names and sentences of the environment file are in it."""
    sys.stdout.write(f"{in_sentence(text)}\n")


def print_text(text: str) -> None:
    """Print sentences as `print_line` does, broken between words at WIDTH."""
    pieces = textwrap.wrap(in_sentence(text), WIDTH, break_long_words=False, break_on_hyphens=False)
    sys.stdout.write("\n".join(pieces) + "\n")


def counted(names: Sequence[str], noun: str, most: int = 3) -> str:
    """Names in a sentence, counted where they are more than `most`: `12 nodes: a, b, c, …`."""
    if len(names) <= most:
        return ", ".join(names)
    return f"{len(names)} {noun}: {', '.join(names[:most])}, …"


def print_error(message: str) -> None:
    """Print what went wrong to stderr, its control characters as escapes."""
    red, plain = (RED, PLAIN) if sys.stderr.isatty() else ("", "")
    sys.stderr.write(f"{red}{visible(without_passwords(message))}{plain}\n")


def print_failure(error: GpupoolError, format: str) -> None:
    """Report what went wrong: to stderr for people, and to stdout in the machine's `format`, as
    {errors, findings} where that is JSON.

    An error that carries a result has been printed by its verb, which has more detail than the error.
    """
    findings: tuple[Finding, ...] = getattr(error, "findings", ())
    print_error(str(error))
    for ready in ready_files(findings):
        sys.stderr.write(f"\n{ready}\n")
    summary = f"{len(findings)} finding{'s' if len(findings) != 1 else ''}; nothing changed"
    if findings:
        print_error(summary)
    if getattr(error, "result", None) is not None or not (findings or format == "json"):
        return
    if format in MACHINE_FORMATS:
        from gpupool.cli.findings.outputs import write_report

        more = {"errors": without_passwords(str(error)).splitlines()}
        write_report(FindingReport(command="", findings=findings, summary=summary, more=more), format)
