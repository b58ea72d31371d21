"""The report for a terminal, in plain lines, nothing folded.

Colour only where it is asked for; every mark is a word, so that nothing is lost without it.
"""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Iterator, Sequence

from gpupool.environment.drawings import characters_before_and_after, drawable
from gpupool.findings import Category
from gpupool.findings.terminal import BOLD, PLAIN, RED, YELLOW, in_sentence, one_line
from gpupool.review.report.blocks import (
    AlertLine,
    AlertLines,
    Amounts,
    Block,
    Chapter,
    FindingLine,
    FindingLines,
    Groups,
    NodeStep,
    NodeSteps,
    Paragraph,
    Section,
    Table,
    ValueChange,
    ValueChanges,
    Words,
)
from gpupool.review.report.document import document_of, unchanged_paragraph
from gpupool.review.report.model import Report

_WIDTH = 100


def text(report: Report, *, colour: bool = False) -> str:
    """The whole report; ends with a line break."""
    document = document_of(report)
    before, after = (_plain(state) for state in (document.states.before, document.states.after))
    lines = [f"{document.before} ({before}) -> {document.after} ({after})", document.headline]
    lines += [line for note in document.notes for line in _wrapped(note, 2)]
    for chapter in document.chapters:
        lines += ["", *_chapter(chapter, colour)]
    if unchanged := unchanged_paragraph(document):
        lines += ["", *_wrapped(_plain(unchanged.words), 0)]
    return "".join(f"{in_sentence(line).rstrip()}\n" for line in lines)


def _chapter(chapter: Chapter, colour: bool) -> Iterator[str]:
    bold, plain = (BOLD, PLAIN) if colour else ("", "")
    yield f"{bold}{': '.join(filter(None, (chapter.title, chapter.change)))}{plain}"
    for block in chapter.blocks:
        yield from _lines(block, 2, colour)


@functools.singledispatch
def _lines(block: Block, indent: int, colour: bool) -> Iterator[str]:
    raise NotImplementedError(type(block))


@_lines.register
def _(block: Section, indent: int, colour: bool) -> Iterator[str]:
    gist = f" ({block.gist})" if block.gist else ""
    yield from ("", " " * indent + f"{block.title}{gist}:")
    for inner in block.blocks:
        yield from _lines(inner, indent + 2, colour)


@_lines.register
def _(block: Paragraph, indent: int, colour: bool) -> Iterator[str]:  # noqa: ARG001
    if not block.quiet:
        yield from _wrapped(_plain(block.words), indent)


@_lines.register
def _(block: AlertLines, indent: int, colour: bool) -> Iterator[str]:
    for alert in block.rows:
        yield from _alert(alert, indent, colour)


def _alert(alert: AlertLine, indent: int, colour: bool) -> Iterator[str]:
    mark = "DANGER" if alert.category is Category.danger else "caution"
    first, *rest = _wrapped(f"{mark} {alert.kind}: {alert.text}", indent)
    if colour:
        first = first.replace(mark, f"{RED if alert.category is Category.danger else YELLOW}{mark}{PLAIN}", 1)
    yield from (first, *rest)


@_lines.register
def _(block: Amounts, indent: int, colour: bool) -> Iterator[str]:  # noqa: ARG001
    shown = [figure for figure in block.rows if figure.always or not figure.same]
    yield from ("", " " * indent + f"{block.title}:")
    yield from _columns(
        [(row.name, row.before, "->", "the same" if row.same else row.after) for row in shown], indent + 2
    )


@_lines.register
def _(block: ValueChanges, indent: int, colour: bool) -> Iterator[str]:  # noqa: ARG001
    yield from _columns([_change(row) for row in block.rows], indent)


def _change(change: ValueChange) -> tuple[str, ...]:
    return (change.name.text, change.before or "-", "->", change.after or "-")


@_lines.register
def _(block: Groups, indent: int, colour: bool) -> Iterator[str]:  # noqa: ARG001
    rows = []
    for group in block.rows:
        changes = [_change(change) for change in group.rows] or [(group.gist, "", "", "")]
        for index, change in enumerate(changes):
            rows.append((*((group.name, group.change) if index == 0 else ("", "")), *change))
    yield from _columns(rows, indent)
    for group in block.rows:
        if group.gpu is not None:
            yield from ("", " " * indent + f"each GPU of {group.name}:")
            pictures = characters_before_and_after(drawable(group.gpu.before), drawable(group.gpu.after))
            yield from (" " * indent + line for line in pictures)


@_lines.register
def _(block: NodeSteps, indent: int, colour: bool) -> Iterator[str]:
    for number, step in enumerate(block.rows, 1):
        yield from _step(number, step, indent, colour)


def _step(number: int, step: NodeStep, indent: int, colour: bool) -> Iterator[str]:
    yield from _wrapped(f"{number}. {step.title}: {step.where.text}: {step.what}", indent, indent + 3)
    yield from _wrapped(f"why: {step.why}", indent + 3)
    if step.table is not None:
        yield from _lines(step.table, indent + 3, colour)


@_lines.register
def _(block: FindingLines, indent: int, colour: bool) -> Iterator[str]:  # noqa: ARG001
    for finding in block.rows:
        yield from _wrapped(_finding(finding), indent)


def _finding(finding: FindingLine) -> str:
    mark = " ".join(filter(None, (finding.change, finding.category)))
    return "; ".join(
        filter(None, (f"{mark} {_plain(finding.about)}: {finding.message}", finding.remediation))
    )


@_lines.register
def _(block: Table, indent: int, colour: bool) -> Iterator[str]:  # noqa: ARG001
    yield from _wrapped(f"{block.title}:", indent)
    rows = [[_plain(cell) for cell in row] for row in block.rows]
    titles = [column.title for column in block.columns]
    lines = list(_columns([titles, *rows], indent + 2))
    if max(map(len, lines)) <= _WIDTH:
        yield from lines
        return
    for first, *cells in rows:  # too wide for a table
        said = [f"{title.lower()} {cell}" for title, cell in zip(titles[1:], cells, strict=True)]
        yield from _wrapped("; ".join([first, *said]), indent + 2)


def _plain(words: Words) -> str:
    return "".join(piece.text for piece in words)


def _wrapped(sentence: str, indent: int, after: int | None = None) -> list[str]:
    return textwrap.wrap(
        " ".join(sentence.split()),
        _WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 2 if after is None else after),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _columns(rows: Sequence[Sequence[str]], indent: int) -> Iterator[str]:
    """As a table whose columns are as wide as they must be; line breaks in a cell are escapes."""
    rows = [list(map(one_line, row)) for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))] if rows else []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        yield " " * indent + "  ".join(cells).rstrip()
