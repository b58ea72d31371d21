"""Sphinx' settings for `make docs`. Pages stay plain Markdown that GitHub and GitLab show as well.

The site's navigation is docs/README.md, a group for each of its headings; links to files that are no pages
become downloads.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
NAVIGATION = ROOT / "docs" / "README.md"
INDEXES = (ROOT / "docs" / "decisions" / "README.md", ROOT / "examples" / "README.md")
"""Pages of the navigation that have pages below them."""

project = html_title = "gpupool"
root_doc = "README"
extensions = ["myst_parser"]
PACKAGES = ["gpupool/client/README.md", "vapcheck/README.md"]
"""Pages of what can be used by itself."""
include_patterns = ["*.md", "docs/**.md", "examples/**README.md", *PACKAGES]
html_theme = "furo"
html_show_copyright = html_show_sphinx = html_copy_source = False
myst_heading_anchors = 4


def pages(index: Path) -> dict[str, list[str]]:
    """The pages that an index lists, from the root of the repository and without `.md`, by heading."""
    groups = {}
    for part in re.split(r"^#+ ", index.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        heading, _, text = part.partition("\n")
        linked = [(index.parent / path).resolve() for path in re.findall(r"\]\(([^)#:]+)\.md\)", text)]
        groups[heading] = list(dict.fromkeys(str(path.relative_to(ROOT)) for path in linked))
    return groups


def navigation(_app: Any, name: str, source: list[str]) -> None:
    """Put the tables of contents, which only Sphinx reads, below the pages that they belong to."""
    if name == root_doc:
        source[0] += _contents(pages(NAVIGATION) | {"Documentation": ["docs/README"]})
    elif ROOT / f"{name}.md" in INDEXES:
        source[0] += _contents(pages(ROOT / f"{name}.md"))


def _contents(groups: dict[str, list[str]]) -> str:
    return "".join(
        f"\n\n```{{toctree}}\n:hidden:\n:caption: {heading}\n\n"
        + "\n".join(f"/{page}" for page in listed)
        + "\n```\n"
        for heading, listed in groups.items()
    )


def setup(app: Any) -> None:
    from pygments.lexers.special import TextLexer

    app.connect("source-read", navigation)
    app.add_lexer("mermaid", TextLexer)
