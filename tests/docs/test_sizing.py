"""The bounds on the page on sizing are those that `make bench` holds the project to."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
EXPECTED = yaml.safe_load((ROOT / "tests" / "perf" / "expectations.yaml").read_text(encoding="utf-8"))[
    "figures"
]
ROW = re.compile(r"^\| `([\w-]+)` \|.*?\| ([\d.]+) ?(\S*)[^|]*\|[^|]*\|$", re.MULTILINE)


def test_its_bounds_are_those_of_the_bench() -> None:
    page = (ROOT / "docs" / "sizing.md").read_text(encoding="utf-8")
    shown = {name: (float(bound), unit) for name, bound, unit in ROW.findall(page)}
    assert len(shown) == page.count("\n| `")
    assert shown == {name: (EXPECTED[name]["at_most"], EXPECTED[name]["unit"]) for name in shown}
