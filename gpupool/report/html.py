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
import re
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from gpupool.plan.changes import wording
from gpupool.report import html_words as words
from gpupool.report import phrases
from gpupool.report.html_figures import figures, sides, signed
from gpupool.report.model import Report

FOLDER = Path(__file__).parent / "templates"

_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""Control characters and those of Unicode that print nothing or turn the direction of what follows."""


def page(report: Report) -> str:
    """The whole page as text; ends with a line break."""
    environment = _templates()
    style = environment.get_template("report.css.j2").render().strip()
    return environment.get_template("report.html.j2").render(
        report=report,
        style=Markup(style),  # noqa: S704 - our own file
        style_hash=_hash(style),
    )


def _hash(style: str) -> str:
    """The source expression that lets exactly this style sheet through (CSP level 2)."""
    return "sha256-" + base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()


@functools.cache
def _templates() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        finalize=_visible,
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
    environment.globals.update(figures=figures, phrases=phrases, sides=sides, words=words)
    return environment


def _visible(value: Any) -> Any:
    """Text with its hidden characters spelled out, as `<U+202E>`; markup of our own stays as it is."""
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return _HIDDEN.sub(lambda found: f"<U+{ord(found[0]):04X}>", value)
    return value
