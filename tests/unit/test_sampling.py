"""How a run draws its share of the tests that take minutes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import sampling

ROOT = Path(__file__).parents[2]
TESTS = [f"tests/cluster/pulumi/test_{number % 4}.py::test_{number}" for number in range(8)]
OTHERS = ["tests/unit/test_b.py::test_1", "tests/unit/test_b.py::test_2"]


@pytest.fixture(autouse=True)
def nothing_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "WHOLE", frozenset())
    monkeypatch.setattr(sampling, "HALVED", frozenset())


def test_the_same_seed_draws_the_same_cases_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = sampling.drawn("drift", range(100), 10)
    assert chosen == sampling.drawn("drift", range(100), 10) == sorted(set(chosen))
    assert len(chosen) == 10
    monkeypatch.setattr(sampling, "SEED", sampling.SEED + 1)
    assert chosen != sampling.drawn("drift", range(100), 10)


def test_an_area_that_is_run_whole_has_all_its_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "WHOLE", frozenset({"drift", "stack"}))
    assert sampling.drawn("drift", range(100), 10) == list(range(100))
    assert len(sampling.drawn("policies", range(100), 10)) == 10
    assert sampling.kept(TESTS) == set(TESTS)


def test_a_share_of_every_folder_runs_and_all_of_other_files() -> None:
    chosen = sampling.kept([*TESTS, *OTHERS])
    assert chosen >= set(OTHERS)
    assert len(chosen & set(TESTS)) == len(TESTS) // sampling.AREAS["stack"].share
    assert len(sampling.kept(TESTS[:1])) == 1


def test_every_run_draws_the_same_unless_a_seed_is_given() -> None:
    command = [sys.executable, "-c", "from tests import sampling; print(sampling.SEED)"]
    environment = {name: value for name, value in os.environ.items() if name != "GPUPOOL_SEED"}

    def seed(**more: str) -> int:
        return int(subprocess.check_output(command, cwd=ROOT, env=environment | more, text=True))

    assert seed() == 0
    assert seed(GPUPOOL_SEED="7") == 7


def test_seeds_come_around_to_every_test(monkeypatch: pytest.MonkeyPatch) -> None:
    for tests in (TESTS, TESTS[:5]):
        seen = set()
        for number in range(sampling.AREAS["stack"].share):
            monkeypatch.setattr(sampling, "SEED", 1000 + number)
            seen |= sampling.kept(tests)
        assert seen == set(tests)


def test_changed_files_call_for_their_areas() -> None:
    assert sampling.called_for(["gpupool/drift/check.py", "README.md"]) == ["drift"]
    assert sampling.called_for(["infra/apply.py", "policies/pin-images.yaml"]) == [
        "stack",
        "policies",
        "policy engine",
        "command line",
        "launcher",
    ]
    assert sampling.called_for(["README.md"]) == []


def test_a_change_to_everything_has_half_of_every_area(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = [area.code[0] for area in sampling.AREAS.values()]
    areas = sampling.taken(changed, ["wheel"])
    assert areas.split(",") == [f"{name}/2" for name in sampling.AREAS if name != "wheel"] + ["wheel"]
    command = f"from tests import sampling; print(*sampling.WHOLE, len(sampling.kept({TESTS})))"
    environment = {**os.environ, "GPUPOOL_TESTS": areas}
    printed = subprocess.check_output([sys.executable, "-c", command], cwd=ROOT, env=environment, text=True)
    assert printed == f"wheel {len(TESTS) // 2}\n"


@pytest.mark.parametrize(
    "changed", ["tests/cluster/conftest.py", "tests/cluster/kube.py", "tools/kwok/go.mod"]
)
def test_what_every_control_plane_is_made_of_calls_for_all_that_start_one(changed: str) -> None:
    called = sampling.called_for([changed])
    assert {"drift", "stack", "pools", "policy engine", "wheel"} <= set(called)
    assert "environments" not in called


@pytest.mark.parametrize(
    ("changed", "area"),
    [
        ("requirements.lock", "stack"),
        ("requirements-dev.lock", "environments"),
        ("charts/gpu-scheduler/values.yaml", "wheel"),
        ("tools/nats/go.mod", "queue"),
        ("ci/gitlab.yml", "templates"),
        ("gpupool/findings.py", "command line"),
        ("tests/conftest.py", "environments"),
    ],
)
def test_a_file_that_no_folder_of_an_area_holds_calls_for_it(changed: str, area: str) -> None:
    assert area in sampling.called_for([changed])


def test_ci_runs_the_wheel_whole_whatever_has_changed() -> None:
    assert "make test ALWAYS=wheel" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    command = [sys.executable, "-m", "tests.sampling", "no-such-commit"]
    for given, printed in (([], "\n"), (["wheel"], "wheel\n")):
        done = subprocess.run([*command, *given], cwd=ROOT, capture_output=True, text=True, check=True)
        assert done.stdout == printed
    line = ["make", "-n", "-o", ".venv/.ready", "test", "SINCE=HEAD", "ALWAYS=wheel"]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "python -m tests.sampling HEAD wheel)" in done.stdout


def test_every_area_names_files_that_exist() -> None:
    named = [path for area in sampling.AREAS.values() for path in (*area.code, *area.tests)]
    assert all(list(ROOT.glob(f"{path}*")) for path in named)
