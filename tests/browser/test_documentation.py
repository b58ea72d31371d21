"""The documentation's site in a browser, from a folder: nothing is fetched, and its search finds."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.browser.conftest import PATIENCE
from tests.docs.test_site import ROOT, build


def test_its_search_needs_no_server(browser: Browser, tmp_path: Path) -> None:
    done = build(ROOT, tmp_path)
    assert done.returncode == 0, done.stderr
    page = browser.new_page()
    page.set_default_timeout(PATIENCE)
    fetched = []
    page.on("request", lambda request: fetched.append(request.url))
    page.goto(f"{(tmp_path / 'search.html').as_uri()}?q=repartition")
    hit = page.locator("#search-results a", has_text="Change running nodes").first
    expect(hit).to_be_visible()
    hit.click()
    expect(page.locator("h1")).to_contain_text("Change running nodes")
    page.close()
    assert [url for url in fetched if not url.startswith(("file:", "data:"))] == []
