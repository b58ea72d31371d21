"""A Chromium for the tests of this folder: the system's own, driven over its debugging pipe."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.required_programs import absent

PATIENCE = 240_000
"""Milliseconds that a step may take on a busy machine before it counts as hanging."""
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Closed with the module: while playwright runs, no other test could start an event loop of its own."""
    program = shutil.which("chromium")
    if program is None:
        absent("no chromium to look at pages with; Debian: apt-get install chromium")
    with sync_playwright() as playwright:
        # In a container there is no sandbox to be had, and the pages are our own.
        made = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu"], timeout=PATIENCE
        )
        yield made
        made.close()
