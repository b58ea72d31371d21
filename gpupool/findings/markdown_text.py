"""Text of other people in Markdown, for comments and pages of GitHub and GitLab: it stays text.

The one place where text is escaped for Markdown. Autolinks are of GitHub Flavored Markdown 0.29, section 6.9.
"""

from __future__ import annotations

import re

from gpupool.findings.terminal import in_sentence

_MARKUP = re.compile(r"([\\`*_\[\]|#~])")
_HTML = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;"}
"""With `&`, because a forge looks for mentions after it has read `&commat;` as `@`."""
_NOTICED = re.compile(r"(?<![A-Za-z0-9])@(?=[A-Za-z0-9])|#(?=[0-9])|:(?=//)|www(?=\.)", re.IGNORECASE)
"""Where a mention, a reference to an issue, or a link begins that needs no markup."""


def plain(text: str) -> str:
    """`text` on one line, with nothing in it that Markdown, HTML or a forge would take for its own."""
    markup = _MARKUP.sub(r"\\\1", in_sentence(text).translate(_HTML))
    return _NOTICED.sub(r"\g<0><!-- -->", markup)


def code(text: str) -> str:
    """`text` in a code span, fit for a table's cell too."""
    inner = in_sentence(text).replace("|", "\\|")
    ticks = "`" * (max((len(run) for run in re.findall("`+", inner)), default=0) + 1)
    space = " " if inner.startswith("`") or inner.endswith("`") else ""
    return f"{ticks}{space}{inner}{space}{ticks}"
