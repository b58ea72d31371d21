"""The report as one Markdown comment of about one screen: what is risky first, details folded.

For GitHub and GitLab, which both take `<details>` and tables. Every word may come from somebody else's file,
so what would be markup, a mention or HTML is written so that it is not. Long lists are cut with a count,
because a comment may have 65,536 characters (GitHub).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import Any

from gpupool.environment.drawings import characters_before_and_after, drawable
from gpupool.findings import Category
from gpupool.findings.markdown_text import code, plain
from gpupool.review.report.blocks import (
    AlertLine,
    AlertLines,
    Amounts,
    Block,
    Chapter,
    FindingLine,
    FindingLines,
    Groups,
    NodeSteps,
    Paragraph,
    Piece,
    Section,
    Table,
    ValueChange,
    ValueChanges,
    Words,
)
from gpupool.review.report.document import document_of, unchanged_paragraph
from gpupool.review.report.model import Report
from gpupool.review.report.phrases import capitalised

MARKER = "<!-- gpupool report -->"
"""First line, by which a later run finds the comment that it replaces."""

LONGEST = 60_000
"""Characters of a comment, below GitHub's limit with room for what a workflow adds."""
ROWS = 40
"""Longest list; the rest is counted."""
SHOWN_RISKS = 8
"""Risks of an environment that are not folded."""
DRAWINGS = 6
"""GPUs of a list that are drawn."""


def comment(report: Report) -> str:
    """The whole comment; ends with a line break."""
    for drawings in (DRAWINGS, 0):
        text = re.sub(r"\n{3,}", "\n\n", "\n".join(_comment(report, drawings))).strip() + "\n"
        if len(text) <= LONGEST:
            return text
    end = text.rfind("\n", 0, LONGEST)
    return text[:end] + "\n\nThe rest is too long for a comment; see `gpupool report --format html`.\n"


def _comment(report: Report, drawings: int) -> Iterator[str]:
    document = document_of(report)
    yield from (MARKER, f"## GPU pools: {plain(document.headline)}", "")
    before, after = document.states.before, document.states.after
    states = (
        code(document.before),
        f" ({_words(before)}) to ",
        code(document.after),
        f" ({_words(after)}).",
    )
    yield f"From {''.join(states)}"
    for note in document.notes:
        yield from ("", f"> {plain(note)}")
    for chapter in document.chapters:
        yield from _chapter(chapter, drawings)
    if unchanged := unchanged_paragraph(document):
        yield from ("", _words(unchanged.words))


def _chapter(chapter: Chapter, drawings: int) -> Iterator[str]:
    change = f": {chapter.change}" if chapter.change else ""
    yield from ("", f"### {plain(chapter.title)}{change}", "")
    for block in chapter.blocks:
        yield from ("", *_lines(block, drawings))


@functools.singledispatch
def _lines(block: Block, drawings: int) -> Iterator[str]:
    raise NotImplementedError(type(block))


@_lines.register
def _(block: Section, drawings: int) -> Iterator[str]:
    title = plain(": ".join(filter(None, (block.title, block.gist))))
    body = [line for inner in block.blocks for line in ("", *_lines(inner, drawings))]
    yield from (f"**{title}**", *body) if block.fold == "never" else _folded(title, body)


def _folded(title: str, lines: Sequence[str]) -> Iterator[str]:
    yield from (f"<details><summary>{title}</summary>", "", *lines, "", "</details>")


@_lines.register
def _(block: Paragraph, drawings: int) -> Iterator[str]:  # noqa: ARG001
    if not block.quiet:
        yield from (_words(block.words), "")


@_lines.register
def _(block: AlertLines, drawings: int) -> Iterator[str]:  # noqa: ARG001
    first, rest = block.rows[:SHOWN_RISKS], block.rows[SHOWN_RISKS:]
    yield from map(_alert, first)
    if rest:
        yield from ("", *_folded(f"{len(rest)} more risks", [*map(_alert, rest[:ROWS]), *_cut(rest)]))


def _alert(alert: AlertLine) -> str:
    severity = "DANGER" if alert.category is Category.danger else "Caution"
    return f"- **{severity}, {plain(alert.kind)}:** {plain(alert.text)}"


@_lines.register
def _(block: Amounts, drawings: int) -> Iterator[str]:  # noqa: ARG001
    rows = [
        (plain(row.name), plain(row.before), "the same" if row.same else plain(row.after))
        for row in block.rows
        if row.always or not row.same
    ]
    yield from _table((plain(block.title), "before", "after"), rows, numbers=(1, 2))


@_lines.register
def _(block: ValueChanges, drawings: int) -> Iterator[str]:  # noqa: ARG001
    yield from _table(("setting", "before", "after"), [_change(row) for row in block.rows])


def _change(change: ValueChange) -> tuple[str, ...]:
    return (_piece(change.name), plain(change.before or "-"), plain(change.after or "-"))


@_lines.register
def _(block: Groups, drawings: int) -> Iterator[str]:
    rows = []
    for group in block.rows[:ROWS]:
        changes = [_change(change) for change in group.rows] or [(plain(group.gist), "", "")]
        for index, change in enumerate(changes):
            rows.append((*((plain(group.name), group.change) if index == 0 else ("", "")), *change))
    yield from _table((block.of, "change", "setting", "before", "after"), rows, most=len(rows))
    yield from _cut(block.rows)
    drawn = [(group.name, group.gpu) for group in block.rows if group.gpu is not None]
    for name, gpu in drawn[:drawings]:
        picture = characters_before_and_after(drawable(gpu.before), drawable(gpu.after))
        yield from ("", f"Each GPU of {plain(name)}:", "", "```text", *picture, "```")


@_lines.register
def _(block: NodeSteps, drawings: int) -> Iterator[str]:
    for step in block.rows[:ROWS]:
        what = f"**{step.title}: {plain(step.where.text)}.** {plain(capitalised(step.what))}."
        yield f"1. {what}<br>Why: {plain(step.why)}."
        if step.table is not None:
            yield from ("", *(f"   {line}".rstrip() for line in _lines(step.table, drawings)), "")
    yield from _cut(block.rows)


@_lines.register
def _(block: FindingLines, drawings: int) -> Iterator[str]:  # noqa: ARG001
    for finding in block.rows[:ROWS]:
        yield from (_finding(finding), "")
    yield from _cut(block.rows)


def _finding(finding: FindingLine) -> str:
    mark = " ".join(filter(None, (finding.change, finding.category)))
    todo = f"; {plain(finding.remediation)}" if finding.remediation else ""
    return f"- **{mark}** {_words(finding.about)}: {plain(finding.message)}{todo}"


@_lines.register
def _(block: Table, drawings: int) -> Iterator[str]:  # noqa: ARG001
    yield from (f"{plain(block.title)}:", "")
    numbers = [index for index, column in enumerate(block.columns) if column.number]
    rows = [[_words(cell) for cell in row] for row in block.rows]
    yield from _table([column.title for column in block.columns], rows, numbers)


def _table(
    titles: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int] = (), most: int = ROWS
) -> Iterator[str]:
    """With `most` of the rows. Those of numbers are aligned on the right."""
    yield f"| {' | '.join(titles)} |"
    yield f"|{'|'.join('--:' if index in numbers else ':--' for index in range(len(titles)))}|"
    yield from (f"| {' | '.join(row)} |" for row in rows[:most])
    if len(rows) > most:
        yield from _cut(rows)


def _cut(rows: Sequence[Any]) -> Iterator[str]:
    """How many rows are beyond the longest list."""
    if len(rows) > ROWS:
        yield from ("", f"... and {len(rows) - ROWS} more; see `gpupool report --format html`.")


def _words(words: Words) -> str:
    return "".join(map(_piece, words))


def _piece(piece: Piece) -> str:
    if piece.style == "code":
        return code(piece.text)
    return f"**{plain(piece.text)}**" if piece.style == "strong" else plain(piece.text)
