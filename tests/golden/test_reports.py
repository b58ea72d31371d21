"""What `gpupool report` says of typical pull requests, word by word.

Each folder of `report/` is a case: `base.yaml` and `head.yaml` (one of them missing where the environment
comes or goes), and what is expected as Markdown and as text; of those in AS_JSON as JSON too. `make golden`
writes what is expected again; read the difference before committing it: it is what reviewers will see.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import date
from functools import cache
from pathlib import Path

import pytest

from gpupool.environment.plan.changes.model import SettingChange
from gpupool.findings import Finding
from gpupool.review.report.as_json import as_json
from gpupool.review.report.build import build
from gpupool.review.report.git_states import ProjectFiles
from gpupool.review.report.markdown import MARKER, comment
from gpupool.review.report.model import ProjectState, Report
from gpupool.review.report.text import text

HERE = Path(__file__).parent / "report"
WRITING = bool(os.environ.get("GPUPOOL_WRITE_GOLDEN"))
TODAY = date(2026, 9, 1)
CASES = {
    "replicas-raised": "more slices of each GPU: the device plugin restarts, no node goes",
    "layout-changed": "another MIG layout: nodes are replaced within the budget",
    "mig-to-time-slicing": "both drawn: the layout that goes and the slices that come; nodes are replaced",
    "pool-added": "a new pool with a warm node: money from the first day",
    "pool-removed": "a pool goes: its nodes all at once",
    "pool-left-behind": "GitOps keeps a pool without what its nodes need; an MPS daemon may restart",
    "pool-renamed": "another name is another NodePool",
    "labels-and-taints": "what the nodes are born with changes",
    "machines-and-zones": "an instance type and a zone are allowed no more",
    "no-more-spot": "one of a pool's two NodePools goes",
    "maximum-lowered": "no node goes because of it",
    "image-pinned-again": "nodes may be replaced: it depends on the image",
    "operator-upgraded": "the driver with it: every node is cordoned, one after the other",
    "taint-of-a-new-key": "every operand restarts, and each node is cordoned for the driver",
    "static-nodes-moved": "labels change in place, and the MIG manager repartitions",
    "quotas-and-budgets": "less for one, no bound for it, another tenant",
    "policy-weakened": "overrides, waivers and limits",
    "policy-refuses": "a new denial",
    "file-that-is-wrong": "findings instead of a comparison",
    "environment-added": "a new file",
    "environment-removed": "a file that goes",
    "comments-only": "edited, to no effect",
}
AS_JSON = ("file-that-is-wrong", "policy-refuses", "pool-renamed")
"""Cases that have between them all parts of the JSON."""


def snapshot(case: str, state: str) -> ProjectFiles:
    file = HERE / case / f"{state}.yaml"
    found = {"trial": file.read_bytes()} if file.is_file() else {}
    commit = ("b" if state == "base" else "a") * 40
    return ProjectFiles(ProjectState(state, commit, False), found, {}, {}, {}, HERE, "environments")


@cache
def report(case: str, base: str = "base", head: str = "head") -> Report:
    return build(snapshot(case, base), snapshot(case, head), [], TODAY, 20.0)


def test_every_folder_is_a_case() -> None:
    assert {path.name for path in HERE.iterdir()} == set(CASES)


@pytest.mark.parametrize(("name", "make"), [("report.md", comment), ("report.txt", text)])
@pytest.mark.parametrize("case", CASES)
def test_words(case: str, name: str, make: Callable[[Report], str]) -> None:
    words = make(report(case))
    expected = HERE / case / name
    if WRITING:
        expected.write_text(words, encoding="utf-8")
    assert words == expected.read_text(encoding="utf-8")
    assert words.startswith(MARKER) == (make is comment)


@pytest.mark.parametrize("case", AS_JSON)
def test_json(case: str) -> None:
    said = json.dumps(as_json(report(case)), indent=2, ensure_ascii=False) + "\n"
    expected = HERE / case / "report.json"
    if WRITING:
        expected.write_text(said, encoding="utf-8")
    assert said == expected.read_text(encoding="utf-8")


@pytest.mark.parametrize("case", sorted(set(CASES) - {"file-that-is-wrong"}))
def test_the_way_back_mirrors_the_way_there(case: str) -> None:
    (there,) = report(case).environments
    (back,) = report(case, "head", "base").environments
    assert back.change == {"added": "removed", "removed": "added"}.get(there.change, there.change)
    for one, other in ((there.nodes, back.nodes), (there.gpus, back.gpus), (there.cost, back.cost)):
        assert (other.before, other.after) == (one.after, one.before)
    assert [(r.resource, r.after, r.before) for r in back.resources] == [
        (r.resource, r.before, r.after) for r in there.resources
    ]
    quotas = {(t.name, q.resource, q.before, q.after) for t in there.tenants for q in t.quota}
    assert {(t.name, q.resource, q.after, q.before) for t in back.tenants for q in t.quota} == quotas
    assert set(back.settings) == {SettingChange(f.name, f.after, f.before) for f in there.settings}
    assert _known(back.findings.fixed) == _known(there.findings.new)
    assert _known(back.findings.new) == _known(there.findings.fixed)


def _known(notes: tuple[Finding, ...]) -> set[tuple[str, str, str]]:
    return {(note.code, note.object, note.path) for note in notes}


@pytest.mark.parametrize("states", [("base", "head"), ("head", "base")])
@pytest.mark.parametrize("make", [text, comment])
def test_a_pool_into_or_out_of_mig_is_drawn_in_both_states(
    make: Callable[[Report], str], states: tuple[str, str]
) -> None:
    said = make(report("mig-to-time-slicing", *states))
    assert "no such pool" not in said
    assert "MIG 1x3g.40gb" in said
    assert "time-sliced into 4" in said


@pytest.mark.parametrize("case", CASES)
def test_text_says_every_risk_and_effect(case: str) -> None:
    made = report(case)
    said = " ".join(text(made).split())
    for environment in made.changed:
        assert all(risk.what in said for risk in environment.risks)
        assert all(effect.reason in said and effect.what in said for effect in environment.effects)
