"""One GPU drawn as SVG, to stand in a page or alone.

Blocks differ by outlines, hatching and labels, never by colour: strokes and text take `currentColor`, and
areas are empty unless the page that holds the picture fills its classes (`own`, `shared`, `unused`, `link`).
No scripts, styles, links or outside resources, so that any content security policy allows it. What is drawn
is worked out in `gpupool.environment.drawings.gpu`; here are only pixels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from html import escape

from gpupool.environment.catalog.models import GpuModel
from gpupool.environment.drawings.gpu import OWN, UNUSED, Block, GpuDrawing, drawing
from gpupool.environment.drawings.labels import pieces
from gpupool.environment.sharing import Sharing

WIDTH = 360
"""Width of the picture in CSS pixels: what a phone shows without scaling it down."""
EDGE = 1
"""Pixels kept free at both sides, so that outlines are not cut."""
MEMORY_TOP, MEMORY_BOTTOM = 18, 72
COMPUTE_TOP, COMPUTE_BOTTOM = 90, 124
HEIGHT = 142
FONT = 'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"'
LABEL_SIZE = 12
CHARACTER = 7.3
"""Width of one character of a label; ample for the fonts above at `LABEL_SIZE`."""
LINE = 15
TICK = 4
HATCH = 7
"""Pixels between the lines of a hatched area."""


def svg(gpu: GpuModel, sharing: Sharing, identity: str = "gpu") -> str:
    """One `gpu` shared as `sharing` as an `<svg>` element.

    `identity` (letters, digits, hyphens) begins the ids of its title and description and has to be unique in
    a page. Raises ValueError for a MIG layout that can't be placed.
    """
    what = drawing(gpu, sharing)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="gpu" role="img" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" aria-labelledby="{escape(identity)}-title" '
        f'aria-describedby="{escape(identity)}-desc">',
        f'<title id="{escape(identity)}-title">{escape(what.title)}</title>',
        f'<desc id="{escape(identity)}-desc">{escape(described(what))}</desc>',
        f'<g fill="none" stroke="currentColor" {FONT} font-size="{LABEL_SIZE}">',
        *_links(what),
        *_row(what.memory, MEMORY_TOP, MEMORY_BOTTOM, what.memory_slices),
        *_row(what.compute, COMPUTE_TOP, COMPUTE_BOTTOM, what.compute_slices),
        *_captions(what),
        "</g>",
        "</svg>",
    ]
    return "\n".join(parts)


def described(what: GpuDrawing) -> str:
    """The picture in words, block by block, for those who don't see it."""
    named = [f"{block.label} {block.detail}".strip() for block in what.memory if block.kind != UNUSED]
    unused = sum(block.kind == UNUSED for block in what.memory)
    if unused:
        named.append(f"{unused} memory {'slice' if unused == 1 else 'slices'} unused")
    return f"Memory from left to right: {', '.join(named)}. {what.note}"


def _row(blocks: Sequence[Block], top: int, bottom: int, slices: int) -> Iterator[str]:
    """The blocks between two heights, each with a tick where one of its slices meets the next."""
    for block in blocks:
        left, right = _x(block.start), _x(block.end)
        dashed = ' stroke-dasharray="3 3"' if block.kind == UNUSED else ""
        yield (
            f'<rect class="{block.kind}" x="{_n(left)}" y="{top}" width="{_n(right - left)}" '
            f'height="{bottom - top}"{dashed}/>'
        )
        if block.kind == UNUSED:
            yield f'<path class="hatch" stroke-opacity="0.5" d="{_hatching(left, top, right, bottom)}"/>'
        else:
            ticks = [
                _x(Fraction(i, slices))
                for i in range(slices)
                if block.start < Fraction(i, slices) < block.end
            ]
            if ticks:
                marks = "".join(f"M{_n(x)} {top}v{TICK}M{_n(x)} {bottom}v-{TICK}" for x in ticks)
                yield f'<path class="ticks" d="{marks}"/>'
            yield from _label(block, left, top, right, bottom)


def _label(block: Block, left: float, top: float, right: float, bottom: float) -> Iterator[str]:
    """As much of the block's label and detail as it has room for, in its middle."""
    columns = int((right - left - 2) / CHARACTER)
    rows = int((bottom - top) / LINE)
    lines = pieces(block.label, columns)
    if max(len(line) for line in lines) > columns or len(lines) > rows:
        lines = [block.label.rpartition(" ")[2]]
    if len(lines[0]) > columns:
        return
    fits = bool(block.detail) and len(block.detail) <= columns and len(lines) < rows
    details = [block.detail] if fits else []
    first = (top + bottom) / 2 - (len(lines) + len(details)) * LINE / 2 + LINE * 0.75
    for number, line in enumerate([*lines, *details]):
        weight = ' font-weight="600"' if number < len(lines) else ""
        yield _text(line, (left + right) / 2, first + number * LINE, "middle", weight)


def _captions(what: GpuDrawing) -> Iterator[str]:
    memory = f"memory, {what.memory_slices} slices" if what.memory_slices else "memory"
    compute = f"compute, {what.compute_slices} slices" if what.compute_slices else "compute"
    yield _text(memory, EDGE, MEMORY_TOP - 6, "start", ' font-size="11"')
    yield _text(compute, EDGE, COMPUTE_BOTTOM + 13, "start", ' font-size="11"')


def _links(what: GpuDrawing) -> Iterator[str]:
    """A band from each share of the memory to its share of the compute."""
    below = {block.owner: block for block in what.compute if block.kind == OWN}
    for block in what.memory:
        if block.kind == OWN and block.owner in below:
            other = below[block.owner]
            yield (
                f'<path class="link" stroke-opacity="0.5" d="M{_n(_x(block.start))} {MEMORY_BOTTOM}'
                f"L{_n(_x(block.end))} {MEMORY_BOTTOM}L{_n(_x(other.end))} {COMPUTE_TOP}"
                f'L{_n(_x(other.start))} {COMPUTE_TOP}Z"/>'
            )


def _hatching(left: float, top: float, right: float, bottom: float) -> str:
    """Lines that rise to the right, cut off at the edges of the rectangle."""
    lines = []
    width, height = right - left, bottom - top
    for offset in range(HATCH, int(width + height), HATCH):
        # The line x + y = offset, measured from the upper left corner.
        x1, y1 = max(0.0, offset - height), min(height, offset)
        x2, y2 = min(width, offset), max(0.0, offset - width)
        lines.append(f"M{_n(left + x1)} {_n(top + y1)}L{_n(left + x2)} {_n(top + y2)}")
    return "".join(lines)


def _text(text: str, x: float, y: float, anchor: str, more: str = "") -> str:
    return (
        f'<text x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}" fill="currentColor" stroke="none"{more}>'
        f"{escape(text)}</text>"
    )


def _x(share: Fraction) -> float:
    return float(EDGE + share * (WIDTH - 2 * EDGE))


def _n(value: float) -> str:
    """A coordinate as short as it can be with a hundredth of a pixel."""
    return f"{round(value, 2):g}"
