"""The HTML page without a browser: its structure, that it stands alone, and that no word of it can act."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from gpupool.review.report.html import page
from gpupool.review.report.model import risk
from tests.review.report.page_samples import HOSTILE, SAMPLES, report_of

VOID = {"meta", "br", "hr", "img", "input", "link"}
"""Elements of HTML that have no end tag."""
ALLOWED = {
    *(
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "header",
        "main",
        "footer",
        "section",
        "h1",
        "h2",
        "h3",
    ),
    *(
        "h4",
        "p",
        "ul",
        "ol",
        "li",
        "table",
        "caption",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "details",
        "summary",
    ),
    *("div", "span", "strong", "em", "code", "bdi", "time", "a", "figure", "figcaption"),
    *("svg", "desc", "g", "rect", "path", "text"),
}


class Page(HTMLParser):
    """Elements in order, and what is wrong with the nesting of tags."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: dict[str, list[str]] = {}
        self.wrong: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.wrong += [f"<{tag}> is left open" for tag in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.wrong.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        for tag in self._open[-1:]:
            self.texts.setdefault(tag, []).append(data)

    def attributes(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(params=SAMPLES)
def text(request: pytest.FixtureRequest) -> str:
    """The page of each sample."""
    return page(report_of(request.param))


def test_tags_are_nested_and_ids_unique(text: str) -> None:
    read = Page(text)
    assert read.wrong == []
    ids = [attributes["id"] for _, attributes in read.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    referred = [
        name
        for _, attributes in read.elements
        for attribute in ("aria-labelledby", "aria-describedby")
        for name in attributes.get(attribute, "").split()
    ]
    assert set(referred) <= set(ids)


def test_nothing_acts_and_nothing_is_fetched(text: str) -> None:
    read = Page(text)
    assert {tag for tag, _ in read.elements} <= ALLOWED
    assert [
        name for _, given in read.elements for name in given if name.startswith("on") or name == "style"
    ] == []
    assert all(given["href"].startswith("#environment-") for given in read.attributes("a"))
    assert not [given for _, given in read.elements if "src" in given or "xlink:href" in given]
    style = "".join(read.texts["style"])
    assert "url(" not in style
    assert "@import" not in style


def test_the_policy_lets_the_one_style_sheet_through_and_nothing_else(text: str) -> None:
    read = Page(text)
    policy = next(g["content"] for g in read.attributes("meta") if "http-equiv" in g)
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert directives == {
        "default-src": "'none'",
        "style-src": f"'sha256-{digest}'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def test_headings_go_down_one_step_at_a_time(text: str) -> None:
    levels = [int(tag[1]) for tag, _ in Page(text).elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_tables_are_titled_and_their_headers_say_of_what(text: str) -> None:
    read = Page(text)
    assert len(read.attributes("caption")) == len(read.attributes("table"))
    assert all(given.get("scope") in ("row", "col") for given in read.attributes("th"))
    assert all(
        {"role", "aria-label", "tabindex"} <= set(g)
        for g in read.attributes("div")
        if g.get("class") == "scroll"
    )


def test_pictures_have_words(text: str) -> None:
    read = Page(text)
    pictures = read.attributes("svg")
    assert all(given["role"] == "img" and given["aria-labelledby"] for given in pictures)
    titles = [given["id"] for tag, given in read.elements if tag == "title" and "id" in given]
    assert [given["aria-labelledby"] for given in pictures] == titles


def test_links_lead_to_sections_that_are_there(text: str) -> None:
    read = Page(text)
    ids = {given["id"] for _, given in read.elements if "id" in given}
    assert {given["href"].removeprefix("#") for given in read.attributes("a")} <= ids


def test_hostile_words_are_shown_as_they_are() -> None:
    text = page(report_of("everything"))
    read = Page(text)
    shown = "".join(part for parts in read.texts.values() for part in parts)
    for word in HOSTILE:
        spelled = word.replace("\u202e", "<U+202E>").replace("\u200b", "<U+200B>")
        assert spelled in shown
    assert not set(text) & {"\u202e", "\u200b"}
    assert "49{" not in shown, "templates in data are not evaluated"


def test_what_is_risky_comes_first_and_in_words() -> None:
    text = page(report_of("everything"))
    short = text[text.index("In short") : text.index("<table")]
    assert "1 of 2 environments changes, 2 dangers, 2 cautions." in short
    assert re.search(r'<span class="tag danger">danger</span> drain', short)
    assert "pool serving: up to 3 nodes are replaced" in short
    assert re.search("Unchanged: <bdi>quiet</bdi>", text)
    before, after = text.index("Before:"), text.index("After:")
    assert before < text.index("MIG 1x3g.40gb + 2x2g.20gb") < after < text.index("MIG 2x3g.40gb")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("replicas-raised", ["time-sliced into 3", "time-sliced into 4"]),
        ("pool-renamed", ["renamed", "before "]),
        ("pool-added", ["added", "After:", "NVIDIA H100 80 GB, whole"]),
        ("environment-added", ["added", "at most", "new"]),
        ("environment-removed", ["removed", "before at most"]),
        ("file-that-is-wrong", ["trial can't be used", "The file is not valid after the change"]),
        ("comments-only", ["No environment changes."]),
    ],
)
def test_each_kind_of_change_is_reported(name: str, words: list[str]) -> None:
    shown = " ".join(part for parts in Page(page(report_of(name))).texts.values() for part in parts)
    assert [word for word in words if word not in shown] == []


@pytest.mark.parametrize("name", SAMPLES)
def test_every_risk_and_effect_is_on_the_page(name: str) -> None:
    shown = [part for parts in Page(page(report_of(name))).texts.values() for part in parts]
    whole = " ".join(" ".join(shown).split())
    for environment in report_of(name).changed:
        beside = [effect.what for effect in environment.effects]
        for one in environment.risks:
            reported = [one.what, *(what for what in beside if what in one.what)]
            assert any(text[1:].rstrip(".") in whole for text in reported), one.what
        for effect in environment.effects:
            assert " ".join(effect.reason.split()) in whole


def test_a_danger_that_is_listed_with_its_nodes_is_not_listed_again() -> None:
    text = page(report_of("environment-removed"))
    section = text[text.index('id="environment-1"') :]
    apart = section[: section.index("What happens to nodes")]
    assert apart.count('<li class="risk') == 1, "that the file goes; the rest is about nodes"
    effects = section[section.index("What happens to nodes") : section.index("</ol>")]
    assert effects.count('<span class="tag danger">') == len(
        report_of("environment-removed").environments[0].effects
    )


def test_a_long_list_of_dangers_is_cut_with_a_count() -> None:
    made = report_of("layout-changed")
    first = made.environments[0]
    many = tuple(risk("drain", f"pool number {number}", "danger") for number in range(9))
    text = page(dataclasses.replace(made, environments=(dataclasses.replace(first, risks=many),)))
    short = text[: text.index("<table")]
    assert "And 3 dangers more, listed below." in short
    assert [number for number in range(9) if f"pool number {number}" in short] == list(range(6))
    assert all(f"Pool number {number}" in text for number in range(9))


def test_the_same_report_makes_the_same_page() -> None:
    made = report_of("layout-changed")
    assert page(made) == page(made)
