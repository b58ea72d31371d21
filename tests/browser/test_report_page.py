"""The report's page as a browser shows it: on a desk and a phone, by keyboard, in print, without colour.

GPUPOOL_SCREENSHOTS=FOLDER keeps a picture of every page, to be looked at.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from gpupool.environment.catalog.load import load_catalog
from gpupool.environment.drawings import Bar, bars, svg
from gpupool.review.report.html import page
from tests.browser.conftest import PATIENCE
from tests.golden.test_drawings import DRAWN
from tests.review.report.page_samples import EVERYTHING, report_of

DESK, PHONE = (1280, 800), (390, 844)
SHOWN = (
    "layout-changed",
    "replicas-raised",
    "pool-added",
    "file-that-is-wrong",
    "environment-removed",
    EVERYTHING,
)
MEASURE = (Path(__file__).parent / "measure.js").read_text(encoding="utf-8")
OPEN_ALL = "document.querySelectorAll('details').forEach((each) => { each.open = true })"

Opened = Callable[..., Page]


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Opened]:
    """Opens the page of a sample; the test fails if it complains, asks for anything or opens a dialog."""
    contexts = []
    complaints: list[str] = []

    def open_page(sample: str, size: tuple[int, int] = DESK, **emulated: Any) -> Page:
        file = tmp_path / f"{sample}.html"
        file.write_text(page(report_of(sample)), encoding="utf-8")
        context = browser.new_context(viewport={"width": size[0], "height": size[1]}, **emulated)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        shown = context.new_page()
        shown.on("console", lambda message: complaints.append(f"console: {message.text}"))
        shown.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        shown.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        shown.on(
            "request",
            lambda request: (
                None if request.url == file.as_uri() else complaints.append(f"asks for {request.url}")
            ),
        )
        shown.goto(file.as_uri())
        return shown

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def measured(shown: Page, what: str) -> Any:
    return shown.evaluate(f"{MEASURE}.{what}()")


def keep(shown: Page, name: str) -> None:
    folder = os.environ.get("GPUPOOL_SCREENSHOTS")
    if folder:
        shown.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("sample", SHOWN)
def test_nothing_sticks_out(opened: Opened, sample: str, size: tuple[int, int]) -> None:
    shown = opened(sample, size)
    keep(shown, f"{sample}-{size[0]}")
    for _ in ("folded", "unfolded"):
        assert shown.evaluate("document.documentElement.scrollWidth") <= size[0]
        assert measured(shown, "sticksOut") == []
        assert measured(shown, "cutOff") == []
        shown.evaluate(OPEN_ALL)


def test_labels_keep_to_their_blocks(browser: Browser) -> None:
    pictures = [svg(load_catalog()[key], sharing, name) for name, (key, sharing) in DRAWN.items()]
    figures = [Bar("before", 0, 0, "$0"), Bar("after", 123_456, 12_345_678, "$123,456 to $12,345,678")]
    shown = browser.new_page()
    shown.set_content("".join([*pictures, bars("Cost a month", figures, "bars")]))
    assert shown.locator("svg").count() == len(DRAWN) + 1
    assert measured(shown, "cutOff") == []
    shown.close()


def test_the_style_sheet_passes_the_page_s_own_policy(opened: Opened) -> None:
    shown = opened(EVERYTHING)
    assert shown.evaluate("getComputedStyle(document.body).maxWidth") != "none"
    assert shown.evaluate("document.scripts.length") == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(opened: Opened, scheme: str) -> None:
    for sample in ("replicas-raised", EVERYTHING):
        shown = opened(sample, PHONE, color_scheme=scheme)
        shown.evaluate(OPEN_ALL)
        keep(shown, f"{sample}-{scheme}")
        assert measured(shown, "pale") == []
    ground = shown.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (scheme == "light")


def test_everything_folded_opens_by_keyboard(opened: Opened) -> None:
    shown = opened(EVERYTHING)
    assert measured(shown, "nameless") == []
    folded = shown.locator("details:not([open])").count()
    assert folded >= 4
    stops = shown.locator("a, summary, [tabindex='0']").count()
    for _ in range(stops + folded * 4):
        shown.keyboard.press("Tab")
        focused = shown.evaluate("document.activeElement.tagName")
        if focused == "BODY":
            break
        if focused == "SUMMARY" and not shown.evaluate("document.activeElement.parentElement.open"):
            width = shown.evaluate("parseFloat(getComputedStyle(document.activeElement).outlineWidth)")
            assert width >= 2, "one sees where one is"
            shown.keyboard.press("Enter")
    assert shown.locator("details:not([open])").count() == 0
    shown.locator("summary").first.press("Space")
    assert shown.locator("details:not([open])").count() == 1


@pytest.mark.parametrize(
    "emulated", [{"forced_colors": "active"}, {"forced_colors": "active", "color_scheme": "dark"}]
)
def test_risk_is_shown_by_words_and_lines_without_colour(opened: Opened, emulated: dict[str, str]) -> None:
    shown = opened(EVERYTHING, **emulated)
    keep(shown, "forced-colors")
    canvas = shown.evaluate("getComputedStyle(document.body).backgroundColor")
    risks = shown.locator(".risk, .effect.disruptive")
    assert risks.count() >= 4
    for index in range(risks.count()):
        tag = risks.nth(index).locator(".tag").first
        assert tag.inner_text() in ("danger", "caution")
        assert tag.is_visible()
        style = tag.evaluate(
            "(e) => { const s = getComputedStyle(e); return [s.backgroundColor, s.color, s.borderTopWidth] }"
        )
        assert style[0] == canvas != style[1]
        assert style[2] != "0px"
    fills = shown.evaluate(
        "[...document.querySelectorAll('svg.gpu rect')].map((e) => getComputedStyle(e).fill)"
    )
    assert set(fills) == {"none"}, "outlines and labels alone"


def test_print_shows_what_is_folded_in_black_on_white(opened: Opened) -> None:
    shown = opened(EVERYTHING, (794, 1123), color_scheme="dark")
    hidden = "[...document.querySelectorAll('details:not([open]) table, details:not([open]) ul')]"
    assert shown.evaluate(
        f"{hidden}.every((e) => e.checkVisibility({{contentVisibilityAuto: true}}) === false)"
    )
    shown.emulate_media(media="print")
    keep(shown, "print")
    assert shown.evaluate(f"{hidden}.length") >= 4
    assert shown.evaluate(
        f"{hidden}.every((e) => e.checkVisibility() && e.getBoundingClientRect().height > 0)"
    )
    assert shown.evaluate("document.documentElement.scrollWidth") <= 794
    assert shown.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert measured(shown, "pale") == []


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_what_a_screen_reader_gets(opened: Opened, size: tuple[int, int]) -> None:
    reported = opened("layout-changed", size).locator("body").aria_snapshot()
    for part in (
        'heading "In short" [level=2]',
        'heading "What happens to nodes, in this order" [level=3]',
        'region "In short"',
        "table",
        'columnheader "Environment"',
        'rowheader "trial"',
        'img "NVIDIA H100 80 GB, MIG 1x3g.40gb + 2x2g.20gb"',
        "main",
        "contentinfo",
    ):
        assert part in reported, f"{part}\n{reported}"


def test_links_lead_to_their_section(opened: Opened) -> None:
    shown = opened("layout-changed", PHONE)
    shown.locator("a").first.click()
    assert shown.evaluate("location.hash") == "#environment-1"
    assert shown.evaluate("document.querySelector(location.hash).getBoundingClientRect().top") < PHONE[1]
