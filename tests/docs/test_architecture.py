"""docs/architecture.md shows the areas that the code has, and docs/decisions/README.md each decision."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tests.docs.layers import BEGIN, END, areas

DOCS = Path(__file__).parents[2] / "docs"


def test_the_areas_are_those_of_the_contracts() -> None:
    page = DOCS / "architecture.md"
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    expected = f"{before}{begin}{areas()}{end}{after}"
    if os.environ.get("GPUPOOL_WRITE_GOLDEN"):
        page.write_text(expected)
    assert page.read_text() == expected, "make golden writes it again"


def test_each_decision_is_in_the_index() -> None:
    index = (DOCS / "decisions" / "README.md").read_text()
    files = sorted((DOCS / "decisions").glob("[0-9]*.md"))
    named = re.findall(r"\[(\d+)\. ([^\]]+)\]\(([^)]+)\)", index)
    assert [name for _, _, name in named] == [path.name for path in files]
    for number, title, name in named:
        assert (DOCS / "decisions" / name).read_text().startswith(f"# {number}. {title}\n")
