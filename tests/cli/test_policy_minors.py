"""Clusters of several minors of Kubernetes, as `gpupool policy` judges them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests import command

ROOT = Path(__file__).parents[2]
GUARD = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: versions}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations: [{expression: "semver('1.2.3').major() == 1"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: versions}
spec: {policyName: versions, validationActions: [Deny]}
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: team}
spec: {hostnameOverride: a, containers: [{name: c, image: x}]}
"""
LOCAL = "cluster: {platform: local, name: gpupool-local}"


def gpupool(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return command.gpupool(*arguments, folder=folder)


def environment(place: Path, name: str, version: str) -> str:
    """An environment file for a cluster of that version."""
    text = (ROOT / "environments" / "local.yaml").read_text()
    assert LOCAL in text
    versioned = LOCAL.replace("}", f', kubernetesVersion: "{version}"}}')
    text = text.replace(LOCAL, versioned).replace("name: local}", f"name: {name}}}")
    (place / f"{name}.yaml").write_text(text)
    return f"{name}.yaml"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "guard.yaml").write_text(GUARD)
    (tmp_path / "pod.yaml").write_text(POD)
    return tmp_path


def rules(done: subprocess.CompletedProcess[str]) -> list[str]:
    findings = json.loads(done.stdout)["findings"]
    return [finding["code"] for finding in findings if finding["category"] != "audit"]


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("1.31", ["invalid-policy", "unknown-minor"]),
        ("1.33", ["invalid-policy"]),
        ("1.34", []),
        ("1.36", []),
        ("1.40", ["unknown-minor"]),
    ],
)
def test_an_environment_is_judged_at_its_version(place: Path, version: str, expected: list[str]) -> None:
    file = environment(place, "one", version)
    assert gpupool("validate", file, folder=place).returncode == 0
    done = gpupool("policy", "check", file, "--policies", "guard.yaml", "-o", "json", folder=place)
    assert sorted(rules(done)) == expected
    assert done.returncode == ("invalid-policy" in expected)


def test_a_refusal_says_which_minor_takes_it(place: Path) -> None:
    file = environment(place, "one", "1.33")
    done = gpupool("policy", "check", file, "--policies", "guard.yaml", folder=place)
    assert "undeclared reference to 'semver'" in done.stdout
    assert "Kubernetes 1.34 and newer support it" in done.stdout


def test_an_unknown_minor_is_said_once_with_its_place(place: Path) -> None:
    file = environment(place, "one", "1.31")
    check = ("policy", "check", "pod.yaml", file, "--policies", "guard.yaml")
    said = [line for line in gpupool(*check, folder=place).stdout.splitlines() if "1.31" in line]
    assert said == ["      Kubernetes 1.31 is unknown, only 1.33 to 1.36 are known; it is treated as 1.33"]
    findings = json.loads(gpupool(*check, "-o", "json", folder=place).stdout)["findings"]
    (note,) = [finding for finding in findings if finding["code"] == "unknown-minor"]
    lines = (place / file).read_text().splitlines()
    assert (note["file"], note["path"]) == (file, "cluster.kubernetesVersion")
    assert "kubernetesVersion" in lines[note["line"] - 1]


def test_manifests_are_judged_at_the_version_that_is_named(place: Path) -> None:
    check = ("policy", "check", "pod.yaml", "--policies", "guard.yaml", "-o", "json", "--kubernetes-version")
    assert rules(gpupool(*check, "1.33", folder=place)) == ["invalid-policy", "unknown-field"]
    assert rules(gpupool(*check, "v1.35.3", folder=place)) == []
    assert rules(gpupool(*check, "1.32", folder=place)).count("unknown-minor") == 1
    done = gpupool(*check, "latest", folder=place)
    assert done.returncode == 2
    assert "'latest' is not a Kubernetes version" in done.stderr


def test_manifests_beside_an_environment_are_judged_at_its_version(place: Path) -> None:
    for version, count in (("1.33", 1), ("1.36", 0)):
        file = environment(place, "one", version)
        done = gpupool("policy", "check", "pod.yaml", file, "-o", "json", folder=place)
        assert rules(done).count("unknown-field") == count


def test_fixtures_are_judged_at_the_version_that_is_named(place: Path) -> None:
    (place / "guards" / "fixtures" / "versions").mkdir(parents=True)
    (place / "guards" / "guard.yaml").write_text(GUARD)
    (place / "guards" / "fixtures" / "versions" / "good.yaml").write_text(POD)
    test = ("policy", "test", "guards", "-o", "json", "--kubernetes-version")
    old, new = gpupool(*test, "1.32", folder=place), gpupool(*test, "1.34", folder=place)
    assert "semver" in json.dumps(json.loads(old.stdout)["policies"])
    assert "semver" not in json.dumps(json.loads(new.stdout)["policies"])
    assert [note["code"] for note in json.loads(old.stdout)["notes"]] == ["unknown-minor"]
    assert json.loads(new.stdout)["notes"] == []
