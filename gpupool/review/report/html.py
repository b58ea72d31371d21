"""The report as one HTML page that stands alone: to attach to a pull request, to keep, or to print.

Lays out the blocks of `gpupool.review.report.document`, and knows of a report nothing else. The page asks for
nothing outside itself and runs nothing: its content security policy allows one style sheet, by its hash.
Every word of it may come from a file that somebody else wrote, so everything is escaped, links lead only into
the page itself, and characters that would hide or reorder text are shown as what they are.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from gpupool.environment.drawings import bars, drawable, svg
from gpupool.environment.drawings.gpu import drawing
from gpupool.environment.drawings.page_style import page_style, style_source, visible
from gpupool.environment.plan.changes.model import BeforeAfter, PoolState
from gpupool.review.report.blocks import Amount
from gpupool.review.report.document import document_of
from gpupool.review.report.model import Report
from gpupool.review.report.phrases import capitalised

FOLDER = Path(__file__).parent / "templates"
SHOWN = 6
"""Dangers that the overview lists; all of them are listed where they belong."""


class GpuPicture(NamedTuple):
    """One GPU in one state."""

    heading: str
    title: str
    note: str
    drawing: Markup | None
    """None where it can't be drawn."""


def page(report: Report) -> str:
    """The whole page as text; ends with a line break."""
    style = page_style()
    return (
        _templates()
        .get_template("page.html.j2")
        .render(
            document=document_of(report),
            style=Markup(style),  # noqa: S704 - our own file
            style_hash=style_source(style),
        )
    )


def bars_of(figure: Amount, identity: str) -> Markup:
    """The figure before and after."""
    return Markup(bars(figure.name, figure.bars, identity))  # noqa: S704 - escapes what it draws


def pictures(gpu: BeforeAfter[PoolState | None], identity: str) -> Iterator[GpuPicture]:
    """One GPU in each state that has one."""
    for heading, state in (("Before", gpu.before), ("After", gpu.after)):
        drawn = drawable(state)
        if drawn is not None:
            gpu_drawing = drawing(*drawn)
            picture = Markup(svg(*drawn, f"{identity}-{heading.lower()}"))  # noqa: S704 - escapes what it draws
            yield GpuPicture(heading, gpu_drawing.title, gpu_drawing.note, picture)
        elif state is not None:
            yield GpuPicture(heading, f"{state.gpu}, {state.sharing}: can't be drawn", "", None)


@functools.cache
def _templates() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        finalize=visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["capitalised"] = capitalised
    environment.globals.update(
        bars=bars_of, kind=lambda block: type(block).__name__, pictures=pictures, shown=SHOWN
    )
    return environment
