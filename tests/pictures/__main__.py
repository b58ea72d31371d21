"""`make pictures`: gpupool's dashboards, drawn with Grafana's own components, into docs/pictures.

A real Prometheus answers each panel's query, with half a day of pages that the tests replay. Needs npm, the
registry of its packages, promtool, prometheus and Chromium. A panel without data fails the command.
"""

from __future__ import annotations

import functools
import http.server
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Page, sync_playwright

from gpupool.generators.monitoring import boards
from tests.generators.monitoring.environments import everything
from tests.pictures.history import samples
from tests.pictures.past import past

ROOT = Path(__file__).parents[2]
VIEWER = Path(__file__).with_name("viewer")
PICTURES = ROOT / "docs" / "pictures"
STEP_S, HALF_A_DAY_S = 60, 12 * 3600
POOLS = ("notebooks", "batch-l4", "inference-h100", "training-h100")
"""Time-sliced, MPS with spot, MIG, whole: each kind once keeps pictures short."""
PATIENCE_MS = 120_000


def main() -> int:
    """The exit code: 1 where a panel has nothing to show."""
    for program in ("npm", "promtool", "prometheus", "chromium"):
        if shutil.which(program) is None:
            print(f"{program} is missing; CONTRIBUTING.md says what is needed", file=sys.stderr)
            return 2
    with tempfile.TemporaryDirectory(prefix="gpupool-pictures-") as name:
        folder = Path(name)
        _report("Grafana's components (npm, a minute or two for the first time)")
        _bundle(folder)
        _report("half a day of samples, and what the rules make of them")
        plan = everything(POOLS)
        end = int(time.time()) // STEP_S * STEP_S
        begin = end - HALF_A_DAY_S
        server = past(folder, plan, samples(plan, begin, end, STEP_S), begin, end, STEP_S)
        try:
            return _pictures(folder, server.url, boards.boards(plan))
        finally:
            server.stop()


def _bundle(folder: Path) -> None:
    if not (VIEWER / "node_modules").is_dir():
        subprocess.run(["npm", "ci", "--silent"], cwd=VIEWER, check=True)
    command = [VIEWER / "node_modules" / ".bin" / "esbuild", "viewer.jsx", "--bundle", "--minify"]
    options = [
        "--loader:.ttf=empty",
        "--alias:react-custom-scrollbars-2=./scrollbars.cjs",
        '--define:process.env.NODE_ENV="production"',
        "--log-level=error",
    ]
    subprocess.run([*command, *options, f"--outfile={folder}/viewer.js"], cwd=VIEWER, check=True)
    shutil.copy(VIEWER / "index.html", folder)


def _pictures(folder: Path, url: str, every: list[boards.Board]) -> int:
    handler = functools.partial(_Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    PICTURES.mkdir(exist_ok=True)
    faults = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        shown = browser.new_page(viewport={"width": 1440, "height": 900})
        shown.on("pageerror", lambda error: faults.append(f"{error}"))
        for board in every:
            kind, end = board["uid"].rpartition("-")[2], int(time.time())
            _report(f"the dashboard {board['title']}")
            (folder / f"{kind}.json").write_text(json.dumps(board))
            shows = {"board": f"{kind}.json", "prometheus": url, "step": STEP_S}
            times = {"from": end - HALF_A_DAY_S, "to": end}
            address = f"http://127.0.0.1:{server.server_address[1]}/?{urlencode(shows | times)}"
            faults += [f"{board['title']}: {fault}" for fault in _picture(shown, address, board, kind)]
        browser.close()
    server.shutdown()
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"pictures: {PICTURES.relative_to(ROOT)}; look at each before you commit it")
    return 1 if faults else 0


def _picture(shown: Page, address: str, board: boards.Board, kind: str) -> list[str]:
    """Takes it; the panels that have nothing to show."""
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]
    shown.goto(address)
    shown.wait_for_function(f"(window.pictured ?? []).length >= {len(panels)}", timeout=PATIENCE_MS)
    shown.wait_for_timeout(1500)  # canvases are painted when the browser next has the time
    if not shown.locator("#root > div").count():
        return ["the page could not be drawn"]
    shown.locator("#root > div").screenshot(path=PICTURES / f"dashboard-{kind}.png")
    done = shown.evaluate("window.pictured")
    return [
        f"{panel['title']}: {panel['error'] or 'no data'}"
        for panel in done
        if panel["error"] or not panel["series"]
    ]


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def _report(step: str) -> None:
    print(f"... {step}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
