"""What `gpupool report` says of typical pull requests, word by word.

Each folder of `report/` is a case: `base.yaml` and `head.yaml` (one of them missing where the environment
comes or goes), and what is expected as Markdown and as JSON. `make golden` writes what is expected anew; read
the difference before committing it: it is what reviewers will see.
"""

from __future__ import annotations

import json
import os
from datetime import date
from functools import cache
from pathlib import Path

import pytest

from report.as_json import as_json
from report.build import build
from report.git_states import Snapshot
from report.markdown import MARKER, comment
from report.model import Report, State
from report.text import text

HERE = Path(__file__).parent / "report"
WRITING = bool(os.environ.get("GPUPOOL_WRITE_GOLDEN"))
TODAY = date(2026, 9, 1)
CASES = {
    "replicas-raised": "more slices of each GPU: the device plugin restarts, no node goes",
    "layout-changed": "another MIG layout: nodes are replaced within the budget",
    "pool-added": "a new pool with a warm node: money from the first day",
    "pool-removed": "a pool goes: its nodes all at once",
    "pool-renamed": "another name is another NodePool",
    "labels-and-taints": "what the nodes are born with changes",
    "machines-and-zones": "an instance type and a zone are allowed no more",
    "no-more-spot": "one of a pool's two NodePools goes",
    "maximum-lowered": "no node goes because of it",
    "image-pinned-anew": "nodes may be replaced: it hangs on the image",
    "operator-upgraded": "the driver with it: every node is cordoned, one after the other",
    "static-nodes-moved": "labels change in place, and the MIG manager repartitions",
    "quotas-and-budgets": "less for one, no bound for it, another tenant",
    "policy-weakened": "overrides, waivers and limits",
    "policy-refuses": "a new denial",
    "file-that-is-wrong": "findings instead of a comparison",
    "environment-added": "a new file",
    "environment-removed": "a file that goes",
    "comments-only": "edited, to no effect",
}


def snapshot(case: str, state: str) -> Snapshot:
    file = HERE / case / f"{state}.yaml"
    found = {"trial": file.read_bytes()} if file.is_file() else {}
    commit = ("b" if state == "base" else "a") * 40
    return Snapshot(State(state, commit, False), found, {}, {}, HERE, "environments")


@cache
def report(case: str, base: str = "base", head: str = "head") -> Report:
    return build(snapshot(case, base), snapshot(case, head), [], TODAY, 20.0)


def test_every_folder_is_a_case() -> None:
    assert {path.name for path in HERE.iterdir()} == set(CASES)


@pytest.mark.parametrize("case", CASES)
def test_markdown(case: str) -> None:
    said = comment(report(case))
    expected = HERE / case / "report.md"
    if WRITING:
        expected.write_text(said, encoding="utf-8")
    assert said == expected.read_text(encoding="utf-8")
    assert said.startswith(MARKER)


@pytest.mark.parametrize("case", CASES)
def test_json(case: str) -> None:
    said = json.dumps(as_json(report(case)), indent=2, ensure_ascii=False) + "\n"
    expected = HERE / case / "report.json"
    if WRITING:
        expected.write_text(said, encoding="utf-8")
    assert said == expected.read_text(encoding="utf-8")


@pytest.mark.parametrize("case", CASES)
def test_text_says_every_risk_and_effect(case: str) -> None:
    made = report(case)
    said = " ".join(text(made).split())
    for environment in made.changed:
        assert all(risk.text in said for risk in environment.risks)
        assert all(effect.reason in said and effect.what in said for effect in environment.effects)
