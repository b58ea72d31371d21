"""The report as one HTML page that stands alone: to attach to a pull request, to keep, or to print.

Lays out what `gpupool.report.model` says and computes nothing of it. The page asks for nothing outside itself
and runs nothing: its content security policy allows one style sheet, by its hash. Every word of it may come
from a file that somebody else wrote, so everything is escaped, links lead only into the page itself, and
characters that would hide or reorder text are shown as what they are.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from gpupool.drawings.page_style import page_style, visible
from gpupool.plan.changes import wording
from gpupool.report import html_words as words
from gpupool.report import phrases
from gpupool.report.html_figures import figures, gpu_figures, signed
from gpupool.report.model import Report

FOLDER = Path(__file__).parent / "templates"


def page(report: Report) -> str:
    """The whole page as text; ends with a line break."""
    environment = _templates()
    style = page_style()
    return environment.get_template("report.html.j2").render(
        report=report,
        style=Markup(style),  # noqa: S704 - our own file
        style_hash=_hash(style),
    )


def _hash(style: str) -> str:
    """The source expression that allows exactly this style sheet (CSP level 2)."""
    return "sha256-" + base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()


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
    environment.filters.update(
        age=phrases.age,
        capitalised=words.capitalised,
        plural=phrases.plural,
        resource=wording.resource_name,
        signed=signed,
    )
    environment.globals.update(figures=figures, phrases=phrases, gpu_figures=gpu_figures, words=words)
    return environment
