"""Pages of other sites in a real browser, by names that lead to this machine (DNS rebinding) and by its own
addresses: they change nothing and read nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from playwright.sync_api import BrowserContext, Page, Route, sync_playwright

from gpupool.client import local_token
from tests.browser.conftest import PATIENCE
from tests.queue.api.served import CONTAINER_JOB, HTTP_JOB
from tests.queue.web.conftest import Site
from tests.required_programs import absent

REBOUND = (
    "evil.example",
    "a{b.evil.example",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "LOCALHOST.",
)
"""Names of another site that its name server points to this machine, at the queue's port."""
ATTEMPTS = """async ([address, jobs, job]) => {
  const tries = [];
  const headers = {"Content-Type": "application/json", "X-Tenant-Id": "vision"};
  const simple = {"Content-Type": "text/plain"};
  for (const origin of [location.origin, address, address.replace("127.0.0.1", "localhost")]) {
    for (const body of jobs) {
      for (const mode of ["cors", "no-cors"]) {
        for (const how of [headers, simple])
          tries.push(fetch(`${origin}/api/v1/gpu-jobs`,
            {method: "POST", headers: how, body, mode, credentials: "include"}));
      }
      navigator.sendBeacon(`${origin}/api/v1/gpu-jobs`, new Blob([body], {type: "application/json"}));
    }
    for (const mode of ["cors", "no-cors"]) {
      const cancel = `${origin}/api/v1/gpu-jobs/${job}/cancel`;
      tries.push(fetch(cancel, {method: "POST", mode, credentials: "include"}));
      tries.push(fetch(`${origin}/api/v1/gpu-jobs`, {mode, credentials: "include"}));
      tries.push(fetch(`${origin}/jobs`, {mode, credentials: "include"}));
    }
  }
  const read = [];
  for (const each of await Promise.allSettled(tries))
    if (each.status === "fulfilled") read.push([each.value.status, await each.value.text()]);
  return read;
}"""


@pytest.fixture(scope="module")
def rebound() -> Iterator[BrowserContext]:
    """A browser to which every name is this machine."""
    program = shutil.which("chromium")
    if program is None:
        absent("no chromium to look at pages with; Debian: apt-get install chromium")
    arguments = ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * 127.0.0.1"]
    arguments += ["--disable-features=LocalNetworkAccessChecks"]  # a defence of newer browsers, and not ours
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=arguments, timeout=PATIENCE)
        context = browser.new_context()
        context.set_default_timeout(PATIENCE)
        yield context
        browser.close()


def listed(site: Site) -> list[tuple[str, str, int]]:
    answer = httpx2.get(f"{site.address}/api/v1/gpu-jobs?limit=200", timeout=60).json()
    return [(job["id"], job["state"], job["version"]) for job in answer["jobs"]]


def evil_page(rebound: BrowserContext, address: str) -> Page:
    """A page of that origin, as its owner wrote it; what it asks for is sent over the network."""
    page = rebound.new_page()

    def own(route: Route) -> None:
        route.fulfill(body="<title>evil</title>", content_type="text/html")

    page.route("**/evil", own)
    page.goto(f"{address}/evil")
    return page


def waiting_job(site: Site) -> str:
    return site.submit(target_url="http://example", container_image=None, gpu_pool_requested="notebooks")


def test_pages_of_other_sites_change_and_read_nothing(rebound: BrowserContext, dev_site: Site) -> None:
    port = urlsplit(dev_site.address).port
    token = local_token.find() or ""
    signed_in = rebound.new_page()
    seal = local_token.seal(token, "link", port or 0, 60)
    signed_in.goto(f"{dev_site.address}/login?once={seal}")
    assert "once" not in signed_in.url
    assert signed_in.get_by_role("button", name="Sign out").count() == 1, "with a session to ride on"
    sleeper = dev_site.submit(job_name="sleeper", container_command=["sleep", "3000"])
    dev_site.wait(sleeper, "running")
    before = listed(dev_site)
    jobs = [json.dumps(HTTP_JOB), json.dumps(CONTAINER_JOB | {"container_command": ["id"]})]
    for origin in (*(f"http://{name}:{port}" for name in REBOUND), "http://evil.example", "http://localhost"):
        page = evil_page(rebound, origin)
        read: list[Any] = page.evaluate(ATTEMPTS, [dev_site.address, jobs, sleeper])
        for status, text in read:
            assert status in (0, 400, 403, 421), (origin, status, text)
            assert "sleeper" not in text
        for target in (dev_site.address, f"http://localhost:{port}"):
            for path in (f"/jobs/{sleeper}/cancel", f"/api/v1/gpu-jobs/{sleeper}/cancel", "/logout"):
                page = evil_page(rebound, origin)
                page.set_content(f'<form method="post" action="{target}{path}"><button>x</button></form>')
                with page.expect_navigation() as navigation:
                    page.get_by_role("button").click()
                assert navigation.value.status == 403, (origin, path)
                page.close()
    assert listed(dev_site) == before
    signed_in.reload()
    assert signed_in.get_by_role("button", name="Sign out").count() == 1
    headers = dev_site.headers()
    httpx2.post(f"{dev_site.address}/api/v1/gpu-jobs/{sleeper}/cancel", headers=headers, timeout=60)
