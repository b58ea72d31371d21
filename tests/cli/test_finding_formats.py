"""Every command with findings prints them as SARIF, JUnit and annotations of GitHub, by the same printers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
import yaml

from gpupool.findings import Category, Severity, exit_code
from gpupool.live.cluster import access
from gpupool.live.drift import Drift, check
from gpupool.live.drift.check import DriftCheck
from tests.command import gpupool
from tests.environment_files import write_environment
from tests.review.report.plans import EKS, STATIC
from tests.review.report.test_git_states import commit, git

ROOT = Path(__file__).parents[2]
WRONG = ROOT / "tests" / "golden" / "wrong_environments" / "a100-80gb-on-p4d.yaml"
MADE = ROOT / "tests" / "queue" / "simulate" / "traces" / "made.yaml"
SUBSET = json.loads(Path(__file__).with_name("sarif_subset.schema.json").read_text(encoding="utf-8"))
POD = "{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {containers: [{name: m, image: a:1, resources: "
DRIFTS = (
    Drift(layer="nodes", code="label", object="Node a", what="it has no label", remediation="kubectl label"),
    Drift(
        layer="slices",
        code="operator-applying",
        object="Node b",
        what="it starts",
        remediation="kubectl get",
        category=Category.settling,
    ),
)


def put(folder: Path, name: str, data: dict[str, object]) -> Path:
    return write_environment(folder / "environments", {**data, "metadata": {"name": name}})


def validate(folder: Path) -> tuple[tuple[str, ...], Path, str]:
    return ("validate", str(WRONG)), folder, "pools-instance-types"


def policy(folder: Path) -> tuple[tuple[str, ...], Path, str]:
    (folder / "pod.yaml").write_text(POD + "{limits: {nvidia.com/gpu: 1}}}]}}")
    return ("policy", "check", "pod.yaml"), folder, "gpu-pods-name-a-pool"


def rules(folder: Path) -> tuple[tuple[str, ...], Path, str]:
    files = [put(folder, name, STATIC) for name in ("one", "two")]
    return ("policy", "check", *map(str, files)), folder, "one-environment-per-object"


def doctor(folder: Path) -> tuple[tuple[str, ...], Path, str]:
    return ("doctor", str(WRONG)), folder, "file-file-finding"


def assertion(folder: Path) -> tuple[tuple[str, ...], Path, str]:
    return ("assert", str(put(folder, "trial", EKS)), "--no-record"), folder, "label"


def report(folder: Path) -> tuple[tuple[str, ...], Path, str]:
    git(folder, "init", "-q", "-b", "main")
    put(folder, "prod", EKS)
    commit(folder)
    changed = yaml.safe_load((folder / "environments" / "prod.yaml").read_text())
    changed["pools"][0]["labels"] = {"a": "b"}
    put(folder, "prod", changed)
    return ("report", "--base", "main"), folder, "drain"


def convert(folder: Path) -> tuple[tuple[str, ...], Path, str]:
    return ("convert", str(ROOT / "tests" / "golden" / "convert" / "mistakes" / "input")), folder, ""


def simulate(folder: Path) -> tuple[tuple[str, ...], Path, str]:
    asserted = ("--trace", str(MADE), "--window", "0..6h", "--assert", "served_gpu_hours<1")
    return ("simulate", "local", *asserted), ROOT, "served_gpu_hours"


COMMANDS = (
    validate,
    policy,
    rules,
    doctor,
    assertion,
    report,
    convert,
    simulate,
)


@pytest.mark.parametrize("prepare", COMMANDS)
def test_every_command_has_the_formats_of_machines(
    prepare: Callable[[Path], tuple[tuple[str, ...], Path, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arguments, folder, code = prepare(tmp_path)
    seen = DriftCheck("trial", DRIFTS, datetime(2026, 11, 21, tzinfo=UTC), 0.5, 2, 3)
    if arguments[0] == "assert":
        monkeypatch.setattr(access, "require_cluster", lambda plan: None)
        monkeypatch.setattr(access, "connect", lambda plan: None)
        monkeypatch.setattr(check, "assert_environment", lambda *_, **__: seen)
    done = {name: gpupool(*arguments, "-o", name, folder=folder) for name in ("sarif", "junit", "github")}
    assert len({each.returncode for each in done.values()}) == 1, done

    log = json.loads(done["sarif"].stdout)
    jsonschema.validate(log, SUBSET)
    (run,) = log["runs"]
    assert any(result["ruleId"].startswith(code) for result in run["results"]), run["results"]
    errors = sum(result["level"] == "error" for result in run["results"])

    suites = ElementTree.fromstring(done["junit"].stdout)
    assert any(suite.get("name", "").startswith(code) for suite in suites)
    assert (int(suites.get("failures", "0")) > 0) == (errors > 0)

    commands = re.findall("^::(error|warning|notice) ", done["github"].stdout, re.MULTILINE)
    assert len(commands) == len(run["results"])
    assert commands.count("error") == errors
    if arguments[0] != "convert":  # whose exit code also says whether the file is complete
        assert done["sarif"].returncode == int(errors > 0), done["sarif"]


def test_the_severest_decides_the_exit_code() -> None:
    assert exit_code(()) == 0
    assert exit_code([Category.danger, Category.settling]) == 0
    assert exit_code([Category.warn, Category.deny]) == 1
    assert {category.severity for category in Category} == set(Severity)
