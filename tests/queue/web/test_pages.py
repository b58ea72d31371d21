"""The queue's pages in Chromium: live, whole without JavaScript, on a desk and a phone, for everyone.

GPUPOOL_SCREENSHOTS=FOLDER keeps a picture of every page, to be looked at.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from gpupool.client import local_token
from tests.browser.conftest import PATIENCE
from tests.browser.test_report_page import MEASURE
from tests.queue.web.conftest import Site

DESK, PHONE = (1280, 800), (390, 844)
HOSTILE = "<script>document.title = 'taken'</script>\u200fgpj.exe"
AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
VIOLATIONS = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations.map(
    (each) => `${each.id}: ${each.nodes.map((node) => node.html.slice(0, 150)).join(" | ")}`)"""

Opened = Callable[..., Page]


@pytest.fixture
def opened(browser: Browser) -> Iterator[Opened]:
    """Opens a page; the test fails if it complains, or asks another site for anything."""
    contexts = []
    complaints: list[str] = []

    def open_page(address: str, size: tuple[int, int] = DESK, **emulated: Any) -> Page:
        context = browser.new_context(viewport={"width": size[0], "height": size[1]}, **emulated)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        shown = context.new_page()
        shown.on("console", lambda message: complaints.append(f"console: {message.text}"))
        shown.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        shown.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        origin = "/".join(address.split("/")[:3])
        shown.on(
            "request",
            lambda request: (
                None if request.url.startswith(origin) else complaints.append(f"asks for {request.url}")
            ),
        )
        shown.goto(address)
        return shown

    yield open_page
    for context in contexts:
        context.close()
    # What a page that is left behind still asked for is no complaint.
    assert [text for text in complaints if "ERR_" not in text] == []


@pytest.fixture(scope="module")
def jobs(dev_site: Site) -> dict[str, str]:
    """A job that runs, one with a name that is hostile, one that waits, one that failed, an HTTP job."""
    command = {"container_command": ["sh", "-c", "echo '<b>loss</b> 0.1'; sleep 3000"]}
    fails = {"container_command": ["sh", "-c", "echo trying; exit 7"], "retries": 0}
    http = {"container_image": None, "target_url": "http://example/x", "request_json": {"x": 1}}
    found = {
        "runs": dev_site.submit(job_name="finetune", project_id="ocr", **command),
        "hostile": dev_site.submit(job_name=HOSTILE, **command),
        "failed": dev_site.submit(job_name="fails", **fails),
        "http": dev_site.submit(job_name="hello", **http),
        "whole": dev_site.submit(job_name="whole", gpu_pool_requested="training", gpu_count=4, **command),
        "mig": dev_site.submit("serving", job_name="model", gpu_pool_requested="inference-mig", **command),
    }
    for name in ("runs", "hostile", "whole", "mig"):
        dev_site.wait(found[name], "running")
    for name in ("failed", "http"):
        dev_site.wait(found[name], "failed", "succeeded")
    # It can't borrow.
    waits = {"job_name": "waits", "gpu_pool_requested": "training", "gpu_count": 2, "preemptible": False}
    found["waits"] = dev_site.submit(**waits, **command)
    return found


def addresses(jobs: dict[str, str]) -> dict[str, str]:
    return {"overview": "/", "jobs": "/jobs"} | {name: f"/jobs/{id}" for name, id in jobs.items()}


def keep(shown: Page, name: str) -> None:
    folder = os.environ.get("GPUPOOL_SCREENSHOTS")
    if folder:
        shown.screenshot(path=Path(folder) / f"queue-{name}.png", full_page=True)


def violations(shown: Page) -> list[str]:
    shown.evaluate(AXE)
    found: list[str] = shown.evaluate(VIOLATIONS)
    return found


def test_the_overview_shows_who_holds_which_slices(
    opened: Opened, dev_site: Site, jobs: dict[str, str]
) -> None:
    shown = opened(dev_site.address)
    notebooks = shown.locator(".pool", has_text="notebooks").first
    expect(notebooks.get_by_text("22 of 24 slices free")).to_be_visible()
    expect(notebooks.get_by_role("img", name="GPU 0 of node 0: held by A, B")).to_be_visible()
    assert notebooks.locator("svg.slices").first.locator("rect.held").count() == 2
    expect(notebooks.locator(".holders")).to_contain_text("vision: finetune, 1 slice")
    training = shown.locator(".pool", has=shown.get_by_role("heading", name="training", exact=True))
    assert training.locator("rect.held").count() == 4
    mig = shown.locator(".pool", has_text="inference-mig")
    expect(mig.locator(".holders")).to_contain_text("serving: model, 1 of")
    waits = shown.locator("#queue tbody tr", has_text="waits")
    expect(waits).to_contain_text("vision uses 4 of its 4 nvidia.com/gpu of training")
    expect(waits).to_contain_text(re.compile(r"in 3 h 5\d min"))
    waits.get_by_role("link").click()
    expect(shown.get_by_role("heading", name="waits queued")).to_be_visible()
    expect(shown.locator("#why")).to_contain_text("0 jobs ahead of it")


def test_a_new_job_appears_without_loading_the_page_again(
    opened: Opened, dev_site: Site, jobs: dict[str, str]
) -> None:
    shown = opened(dev_site.address)
    shown.evaluate("window.same = true")
    command = ["sh", "-c", "sleep 3000"]
    id = dev_site.submit(job_name="appears", gpu_pool_requested="research-h100", container_command=command)
    expect(shown.locator("#running")).to_contain_text("appears")
    expect(shown.locator("#pools")).to_contain_text("vision: appears")
    page = opened(f"{dev_site.address}/jobs/{id}")
    expect(page.get_by_role("button", name="Cancel this job")).to_have_count(0)
    page.get_by_role("link", name="Sign in", exact=True).last.click()
    page.get_by_label("API key").fill(local_token.find() or "")
    page.get_by_role("button", name="Sign in").click()
    page.locator("summary", has_text="Request").click()
    page.get_by_role("button", name="Cancel this job").click()
    expect(page.locator("#head")).to_contain_text("cancelled")
    expect(shown.locator("#running")).not_to_contain_text("appears")
    assert shown.evaluate("window.same")


def test_what_a_reader_opened_stays_open(opened: Opened, dev_site: Site, jobs: dict[str, str]) -> None:
    shown = opened(f"{dev_site.address}/jobs/{jobs['runs']}")
    shown.locator("#events summary").click()
    before = shown.locator("#as-of").inner_text()
    dev_site.submit(job_name="noise", container_command=["true"])
    shown.wait_for_function("(before) => document.getElementById('as-of').innerText !== before", arg=before)
    assert shown.locator("#events").get_attribute("open") is not None
    assert shown.evaluate("document.activeElement.localName") == "summary"


def test_without_javascript_the_pages_are_the_same(
    opened: Opened, dev_site: Site, jobs: dict[str, str]
) -> None:
    live, plain = (opened(dev_site.address, java_script_enabled=enabled) for enabled in (True, False))
    for name, path in addresses(jobs).items():
        ids, headings = [], []
        for shown in (live, plain):
            shown.goto(dev_site.address + path)
            ids.append(shown.locator("main [data-live]").evaluate_all("all => all.map((one) => one.id)"))
            headings.append(shown.get_by_role("heading").all_inner_texts())
        assert ids[0] == ids[1], name
        assert headings[0] == headings[1], name
    live.close()
    plain.goto(f"{dev_site.address}/jobs")
    plain.get_by_label("State").select_option("failed")
    plain.get_by_role("button", name="Filter").click()
    expect(plain.locator("#list tbody tr")).to_have_count(1)
    plain.get_by_role("link", name="fails").click()
    expect(plain.locator("#output")).to_contain_text("trying")
    expect(plain.locator("#output")).to_contain_text("exit code 7")


def everywhere(opened: Opened, site: Site, addresses: dict[str, str]) -> Iterator[tuple[str, Page]]:
    """Each page in turn, with all its details open."""
    shown = opened(site.address)
    for name, path in addresses.items():
        shown.goto(site.address + path)
        shown.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true })")
        yield name, shown


def test_nothing_sticks_out(opened: Opened, dev_site: Site, jobs: dict[str, str]) -> None:
    for name, shown in everywhere(opened, dev_site, addresses(jobs)):
        for width, height in (DESK, PHONE):
            shown.set_viewport_size({"width": width, "height": height})
            keep(shown, f"{name}-{width}")
            assert shown.evaluate("document.documentElement.scrollWidth") <= width, name
            assert shown.evaluate(f"{MEASURE}.sticksOut()") == [], (name, width)


def test_hostile_names_stay_text(opened: Opened, dev_site: Site, jobs: dict[str, str]) -> None:
    for path in ("/", "/jobs", f"/jobs/{jobs['hostile']}"):
        shown = opened(dev_site.address + path)
        expect(shown.locator("main")).to_contain_text(HOSTILE.replace("\u200f", "<U+200F>"))
        assert shown.title() != "taken"
        assert shown.evaluate("document.scripts.length") == 1
    expect(shown.locator("#output")).to_contain_text("<b>loss</b> 0.1")


def test_pages_are_accessible(opened: Opened, dev_site: Site, jobs: dict[str, str]) -> None:
    for name, shown in everywhere(opened, dev_site, addresses(jobs) | {"login": "/login"}):
        for scheme in ("light", "dark"):
            shown.emulate_media(color_scheme=scheme)
            keep(shown, f"{name}-{scheme}")
            assert violations(shown) == [], (name, scheme)
            assert shown.evaluate(f"{MEASURE}.pale()") == [], (name, scheme)


def test_sign_in_shows_a_tenant_its_own(opened: Opened, site: Site) -> None:
    keys = {tenant: site.key(tenant) for tenant in ("vision", "serving")}
    own = site.submit("vision", keys["vision"], job_name="own")
    secret = site.submit("serving", keys["serving"], gpu_pool_requested="inference-mig", job_name="secret")
    site.wait(own, "scheduled", key=keys["vision"])
    site.wait(secret, "scheduled", key=keys["serving"])
    shown = opened(f"{site.address}/jobs/{own}")
    expect(shown.get_by_role("heading", name="Sign in")).to_be_visible()
    shown.get_by_label("API key").fill(keys["vision"])
    shown.get_by_role("button", name="Sign in").click()
    expect(shown.get_by_role("heading", name="own scheduled")).to_be_visible()
    shown.get_by_role("link", name="Overview").click()
    expect(shown.locator("#live-state")).to_have_text("Live.")
    expect(shown.locator("main")).to_contain_text("vision: own")
    expect(shown.locator("main")).not_to_contain_text("secret")
    assert violations(shown) == []
    keep(shown, "tenant")
    shown.get_by_role("button", name="Sign out").click()
    expect(shown.get_by_role("heading", name="Sign in")).to_be_visible()
    shown.goto(f"{site.address}/jobs")
    expect(shown.get_by_role("heading", name="Sign in")).to_be_visible()
