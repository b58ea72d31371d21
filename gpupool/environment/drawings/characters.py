"""One GPU drawn with characters, for a terminal and for a code block in Markdown.

ASCII only: it looks the same in an e-mail, in a log, and on a console that knows no box drawing. What is
drawn is worked out in `gpupool.environment.drawings.gpu`; here are only columns and lines.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import zip_longest

from gpupool.environment.catalog.models import GpuModel
from gpupool.environment.drawings.gpu import OWN, SHARED, UNUSED, Block, GpuDrawing, drawing
from gpupool.environment.drawings.labels import pieces
from gpupool.environment.sharing import Sharing

COLUMNS = 40
"""Width of a drawing in characters where nothing asks for more; two of them fit beside each other."""
BESIDE = 100
"""Widest line of two drawings beside each other; wider ones go below each other."""
PER_ROW = 10
"""Replicas on one line; more of them go on further lines, so that each keeps room for its number."""
COMPUTE = "#"
FILL = "/"

Drawable = tuple[GpuModel, Sharing]


def characters(gpu: GpuModel, sharing: Sharing) -> tuple[str, ...]:
    """One `gpu` shared as `sharing`, as lines of text without trailing blanks: the picture, then its note.

    Raises ValueError for a MIG layout that can't be placed.
    """
    what = drawing(gpu, sharing)
    lines = _picture(what)
    return (*lines, *_wrapped(what.note, len(lines[-1])))


def characters_before_and_after(before: Drawable | None, after: Drawable | None) -> tuple[str, ...]:
    """Two drawings under their titles, beside each other where they fit; None where there is no such pool.

    Raises ValueError for a MIG layout that can't be placed.
    """
    left = _titled("BEFORE", before)
    right = _titled("AFTER", after)
    width = max(len(line) for part in left for line in part)
    if width + 4 + max(len(line) for part in right for line in part) > BESIDE:
        return tuple(line for part in (*left, ("",), *right) for line in part)
    return tuple(
        f"{one.ljust(width)}    {other}".rstrip()
        for part, opposite in zip(left, right, strict=True)
        for one, other in zip_longest(part, opposite, fillvalue="")
    )


def _titled(heading: str, drawable: Drawable | None) -> tuple[tuple[str, ...], ...]:
    """Heading and title, picture, note: parts that are to begin on the same line on both sides."""
    if drawable is None:
        return ((heading, "(no such pool)"), (), ())
    what = drawing(*drawable)
    lines = _picture(what)
    width = len(lines[-1])
    return ((heading, *_wrapped(what.title, width)), tuple(lines), tuple(_wrapped(what.note, width)))


def _picture(what: GpuDrawing) -> list[str]:
    if what.memory_slices:
        return _partitioned(what)
    if any(block.kind == SHARED for block in what.memory):
        return [*_rows(what.memory)[:-1], *_rows(what.compute)]
    return _rows(what.memory)


def _partitioned(what: GpuDrawing) -> list[str]:
    """Memory slices to scale, each instance with one `#` for each compute slice that it has."""
    slices = what.memory_slices
    cell = max([COLUMNS // slices, *(_tightest(block, slices) for block in what.memory)])
    compute = {
        block.owner: int((block.end - block.start) * what.compute_slices)
        for block in what.compute
        if block.kind == OWN
    }
    bodies = []
    for block in what.memory:
        width = int((block.end - block.start) * slices) * cell - 1
        lines = [*pieces(block.label, width), *([block.detail] if len(block.detail) <= width else [])]
        bodies.append((block, width, lines, COMPUTE * compute.get(block.owner, 0)))
    height = max(len(lines) for _, _, lines, _ in bodies)
    columns = [
        [FILL * width] * (height + 1)
        if block.kind == UNUSED
        else _cells([*lines, *[""] * (height - len(lines)), marks], width)
        for block, width, lines, marks in bodies
    ]
    axis = "".join(f" {number}".ljust(cell) for number in range(slices)).rstrip()
    unused = any(block.kind == UNUSED for block in what.memory)
    keys = [f"{COMPUTE} a compute slice", *([f"{FILL} unused"] if unused else [])]
    return [axis, *_box(columns), ", ".join(keys)]


def _tightest(block: Block, slices: int) -> int:
    """The narrowest slice, its wall counted, with which the block has room for the pieces of its label."""
    longest = max(len(piece) for piece in pieces(block.label, 0))
    return -(-(longest + 1) // int((block.end - block.start) * slices))


def _rows(blocks: Sequence[Block]) -> list[str]:
    """Equal blocks as boxes, `PER_ROW` to a line, each with its label and its detail where there is room."""
    per_row = min(len(blocks), PER_ROW)
    cell = COLUMNS // per_row
    lines: list[str] = []
    for first in range(0, len(blocks), per_row):
        columns = []
        for block in blocks[first : first + per_row]:
            label = block.label if len(block.label) < cell else block.label.rpartition(" ")[2]
            texts = [label, block.detail] if len(block.detail) < cell else [label]
            columns.append(_cells([text for text in texts if text], cell - 1))
        box = _box(columns)
        # The lower edge of a full row is the upper edge of the next, whether that is full or not.
        lines = [*lines[:-1], *(box if not lines else [lines[-1], *box[1:]])]
    return lines


def _box(columns: Sequence[Sequence[str]]) -> list[str]:
    rule = "+" + "".join("-" * len(column[0]) + "+" for column in columns)
    body = ["|" + "".join(cell + "|" for cell in line) for line in zip(*columns, strict=True)]
    return [rule, *body, rule]


def _cells(texts: Sequence[str], width: int) -> list[str]:
    """The lines of one block: a blank before each, unless one of them needs the whole width."""
    indent = " " if all(len(text) < width for text in texts) else ""
    return [f"{indent}{text}".ljust(width) for text in texts]


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(width, COLUMNS + 1), break_long_words=False)
