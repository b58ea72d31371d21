"""Each run takes the tests that tests/selection.yaml says, and every test is in some run."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests import selection

ROOT = Path(__file__).parents[2]
DRIFT = "tests/cluster/drift/test_repairs.py::test_drift"
CONTRACT = selection.CONTRACTS[0]
UNIT = "tests/environment/spec/test_load.py::test_1"


@pytest.fixture(autouse=True)
def contracts_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in `make test`."""
    monkeypatch.setattr(selection, "EVERYTHING", False)
    monkeypatch.setattr(selection, "WITH_CONTRACTS", True)
    monkeypatch.setattr(selection, "WHOLE", frozenset())


def test_contracts_and_what_no_area_claims_run() -> None:
    assert [selection.runs(test) for test in (UNIT, CONTRACT, DRIFT)] == [True, True, False]


def test_areas_run_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "WHOLE", frozenset({"drift", "policy engine"}))
    assert selection.runs(DRIFT)
    assert not selection.runs("tests/cluster/policies/test_minors.py::test_expressions")
    monkeypatch.setattr(selection, "EVERYTHING", True)
    assert selection.runs("tests/cluster/policies/test_minors.py::test_expressions")


def test_without_contracts_none_runs_that_an_area_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "WITH_CONTRACTS", False)
    assert not selection.runs(CONTRACT)


@pytest.mark.parametrize(
    ("given", "whole"), [("contracts", "0 True"), ("fast", "0 False"), ("contracts,drift", "1 True")]
)
def test_the_run_is_what_the_variable_says(given: str, whole: str) -> None:
    code = "from tests import selection as it; print(len(it.WHOLE), it.WITH_CONTRACTS)"
    variables = {**os.environ, "GPUPOOL_TESTS": given}
    assert subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, env=variables, text=True) == (
        f"{whole}\n"
    )


def test_some_cases_are_the_same_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert selection.some("sharing", range(10), 4) == [0, 2, 5, 7]
    monkeypatch.setattr(selection, "WHOLE", frozenset({"sharing"}))
    assert selection.some("sharing", range(10), 4) == list(range(10))


@pytest.mark.parametrize(
    ("changed", "areas"),
    [
        ("README.md", {"pages"}),
        ("docs/queue.md", set()),
        ("gpupool/live/drift/check.py", {"drift"}),
        ("tests/cluster/drift/world.py", {"drift"}),
        ("requirements.lock", {"stack", "environments"}),
        ("tools/nats/go.mod", {"queue"}),
        ("gpupool/findings/finding.py", {"command line"}),
        ("tests/cluster/kube.py", {"drift", "stack", "pools", "policy engine", "wheel"}),
    ],
)
def test_a_changed_file_calls_for_its_areas(changed: str, areas: set[str]) -> None:
    called = set(selection.called_for([changed]))
    assert areas <= called
    assert areas or not called


def test_a_change_to_everything_stays_within_the_budget() -> None:
    called = selection.called_for([area.code[0] for area in selection.AREAS.values()])
    assert called == list(selection.AREAS)
    taken = selection.affordable(called)
    assert sum(selection.AREAS[name].minutes for name in taken) <= selection.BUDGET
    assert len(taken) < len(called)
    assert selection.affordable(["stack"]) == ["stack"]


def test_ci_runs_the_contracts_where_the_commit_before_is_unknown() -> None:
    command = [sys.executable, "-m", "tests.selection", "no-such-commit"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "contracts\n"


@pytest.mark.parametrize("folder", ["browser", "cluster", "nvidia"])
def test_whatever_needs_programs_belongs_to_an_area(folder: str) -> None:
    claimed = tuple(test.split("::")[0] for area in selection.AREAS.values() for test in area.tests)
    tests = [str(path.relative_to(ROOT)) for path in (ROOT / "tests" / folder).rglob("test_*.py")]
    assert tests
    assert [test for test in tests if not test.startswith(claimed)] == []


def test_every_path_exists() -> None:
    named = [path for area in selection.AREAS.values() for path in (*area.code, *area.tests)]
    named += [*selection.CONTRACTS, *selection.ONLY_IN_ALL]
    assert [path for path in named if not list(ROOT.glob(path.split("::")[0] + "*"))] == []
    tests = [path for path in named if "::" in path]
    missing = [
        path for path in tests if path.split("::")[1].split("[")[0] not in functions(path.split("::")[0])
    ]
    assert missing == []
    cases = [path.rstrip("]").partition("[") for path in tests if path.endswith("]")]
    files = {test: (ROOT / test.split("::")[0]).read_text(encoding="utf-8") for test, _, _ in cases}
    assert [case for test, _, case in cases if f'"{case}"' not in files[test]] == []


@cache
def functions(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))
