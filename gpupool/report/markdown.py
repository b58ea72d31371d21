"""The report as one Markdown comment of about one screen: what is risky first, details folded.

For GitHub and GitLab, which both take `<details>` and tables. Every word may come from somebody else's file,
so what would be markup, a mention or HTML is written so that it is not. Long lists are cut with a count,
because a comment may have 65,536 characters (GitHub).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from gpupool.report import phrases
from gpupool.report.model import EnvironmentReport, Report, State

MARKER = "<!-- gpupool report -->"
"""First line, by which a later run finds the comment that it replaces."""

LONGEST = 60_000
"""Characters of a comment, below GitHub's limit with room for what a workflow adds."""
ROWS = 40
"""Longest list; the rest is counted."""
SHOWN_RISKS = 8
"""Risks of an environment that are not folded."""
DRAWINGS = 6
"""Pools whose layouts are drawn."""

_MARKUP = re.compile(r"([\\`*_\[\]<>|#~])")
_MENTION = re.compile(r"(?<![A-Za-z0-9])@(?=[A-Za-z0-9])")
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]+")


def comment(report: Report) -> str:
    """The whole comment; ends with a line break."""
    text = _template().render(report=report, marker=MARKER)
    text = re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"
    if len(text) <= LONGEST:
        return text
    short = _template().render(report=report, marker=MARKER, short=True)
    text = re.sub(r"\n{3,}", "\n\n", short).strip() + "\n"
    if len(text) <= LONGEST:
        return text
    end = text.rfind("\n", 0, LONGEST)
    return text[:end] + "\n\nThe rest is too long for a comment: `gpupool report --format html` has it all.\n"


@functools.cache
def _template() -> Any:
    environment = Environment(  # noqa: S701 - Markdown has an escaping of its own, put to every value
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        finalize=_finalized,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        rows=ROWS,
        drawings=_drawings,
        is_cut=_is_cut,
        raw=_Raw,
        shown_risks=SHOWN_RISKS,
        short=False,
        state=_state,
        words=phrases,
    )
    environment.filters["code"] = _code
    return environment.get_template("report.md.j2")


class _Raw(str):
    """Text that is Markdown already."""

    __slots__ = ()


def _finalized(value: Any) -> Any:
    return value if isinstance(value, _Raw) else plain(value)


def plain(value: Any) -> str:
    """`value` on one line, with nothing in it that Markdown, HTML or a forge would take for its own."""
    text = _UNSEEN.sub(" ", str(value))
    return _MENTION.sub("@<!-- -->", _MARKUP.sub(r"\\\1", text).replace("\\<", "&lt;").replace("\\>", "&gt;"))


def _code(value: Any) -> _Raw:
    """`value` in a code span, fit for a table's cell too."""
    text = _UNSEEN.sub(" ", str(value)).replace("|", "\\|")
    ticks = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return _Raw(f"{ticks}{space}{text}{space}{ticks}")


def _state(state: State) -> _Raw:
    commit = f" ({state.commit[:10]})" if state.commit else ""
    dirty = " with changes that are not committed" if state.dirty else ""
    return _Raw(f"{_code(state.name)}{commit}{dirty}")


def _is_cut(items: Sequence[Any]) -> int:
    """How many of `items` are beyond the longest list."""
    return max(0, len(items) - ROWS)


def _drawings(environment: EnvironmentReport) -> list[tuple[str, _Raw]]:
    return [(name, _Raw("\n".join(lines))) for name, lines in phrases.layout_drawings(environment)[:DRAWINGS]]
