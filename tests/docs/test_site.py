"""The site of `make docs`: its navigation has every page, and a link that leads nowhere stops it.

Sphinx is installed by `make docs` alone; without it what needs it is skipped.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENTRANCE = {"README", "docs/README"}
"""The page that all others are below, and the one that the navigation is written in."""


@pytest.fixture(scope="module")
def conf():
    spec = importlib.util.spec_from_file_location("conf", ROOT / "docs" / "site" / "conf.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def listed(conf) -> list[str]:
    """The pages that the navigation names, but for the README, which is above them."""
    groups = [conf.pages(index) for index in (conf.NAVIGATION, *conf.INDEXES)]
    return [name for group in groups for names in group.values() for name in names if name != conf.root_doc]


def test_the_navigation_has_every_page_once(conf) -> None:
    tops = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    pages = [*tops, *(ROOT / page for page in conf.PACKAGES)]
    names = {str(page.relative_to(ROOT).with_suffix("")) for page in pages}
    assert Counter(listed(conf)) == Counter(names - ENTRANCE)


def test_a_newcomer_finds_the_groups_in_this_order(conf) -> None:
    groups = [heading for heading, pages in conf.pages(conf.NAVIGATION).items() if heading != "Documentation"]
    assert groups[:4] == ["Start", "The environment file", "Sharing", "Delivery"]
    assert groups[4:7] == ["The job queue", "Monitoring", "Running it"]
    assert groups[7:] == ["Deciding", "Decisions", "Changing gpupool", "Reference"]
    assert all(conf.pages(conf.NAVIGATION)[group] for group in groups)


def build(source: Path, to: Path) -> subprocess.CompletedProcess[str]:
    """As `make docs` builds."""
    pytest.importorskip("sphinx")
    recipe = next(line for line in (ROOT / "Makefile").read_text().splitlines() if "@sphinx-build" in line)
    options = recipe.strip().removeprefix("@sphinx-build").replace("build/docs", str(to)).split()
    command = [sys.executable, "-m", "sphinx", *options]
    return subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)


def test_every_page_is_built(tmp_path: Path, conf) -> None:
    done = build(ROOT, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    for name in listed(conf):
        assert (tmp_path / f"{name}.html").exists()


def test_a_link_that_leads_nowhere_stops_it(tmp_path: Path) -> None:
    pages = {
        "README.md": "# A project\n",
        "docs/README.md": "# Documentation\n\n## Start\n\n- [Queue](queue.md)\n",
        "docs/queue.md": "# Queue\n\n[there](nowhere.md), [here](#no-such-heading)\n",
        "docs/left-out.md": "# In no group\n",
        "docs/site/conf.py": (ROOT / "docs" / "site" / "conf.py").read_text(encoding="utf-8"),
    }
    for name, text in pages.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode == 1
    assert all(text in done.stderr for text in ("nowhere.md", "no-such-heading", "left-out.md"))
