"""Links within the documentation lead somewhere, and every page can be reached from the README."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")],
    key=str,
)
_LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)")


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """(file, anchor or nothing) of each link to a file of the repository."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for path, anchor in _LINK.findall(text):
        if not re.match(r"[a-z]+:", path):
            yield (page.parent / path).resolve() if path else page, anchor


def anchors(page: Path) -> set[str]:
    """Of its headings, as GitHub and GitLab make them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for file, anchor in links(page):
        assert file.exists(), f"{file} does not exist"
        assert not anchor or file.suffix != ".md" or anchor in anchors(file), f"{file.name} has no #{anchor}"


def test_every_page_can_be_reached() -> None:
    reached, ahead = set[Path](), [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page not in reached:
            reached.add(page)
            ahead += [file for file, _ in links(page) if file.suffix == ".md" and file.exists()]
    pages = {page for page in PAGES if page.is_relative_to(ROOT / "docs") or page.parent == ROOT}
    assert sorted(str(page.relative_to(ROOT)) for page in pages - reached) == []


_FOLDERS = ("tests", "gpupool", "infra", "policies", "charts", "vapcheck", "ci", "tools")
_PATH = re.compile(rf"`((?:{'|'.join(_FOLDERS)})/[\w./*{{}},-]+)`")
_OF_A_USER = ("policies/", "ci/")
"""Folders that projects of users have too: what a page names there may be theirs."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_it_names_exist(page: Path) -> None:
    for path in _PATH.findall(page.read_text()):
        names = [path]
        if match := re.fullmatch(r"(.*)\{(.*)\}(.*)", path):
            names = [f"{match[1]}{part}{match[3]}" for part in match[2].split(",")]
        for name in names:
            there = list(ROOT.glob(name.rstrip("/")))
            assert there or name.startswith(_OF_A_USER), f"{name} does not exist"
