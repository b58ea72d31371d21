"""The CronJob that holds a cluster to its file: rights to list, the file as it is, a pod that is let in."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from gpupool.environment.plan.resolve import read_plan
from gpupool.findings import SpecError
from gpupool.generators import assertion, generate
from gpupool.policy import gate as policy_gate

TEXT = """\
# A comment that stays.
apiVersion: gpupool.dev/v1alpha1
kind: Environment
metadata: {name: trial}
cluster: {platform: local, name: trial}
pools:
  - {name: t4s, gpu: t4, nodes: {instanceTypes: [g4dn.xlarge], max: 1}}
"""
WANTED = "monitoring: {assertion: {image: 'registry.example/gpupool:0.1.0'%s}}\n"
OWN_POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: our-own}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [services]}]
  validations: [{expression: "true"}]
"""


def project(folder: Path, more: str = "") -> Path:
    (folder / "environments").mkdir(parents=True)
    (folder / "policies").mkdir()
    path = folder / "environments" / "trial.yaml"
    path.write_text(TEXT + more, encoding="utf-8")
    (folder / "policies" / "our-own.yaml").write_text(OWN_POLICY, encoding="utf-8")
    return path


def made(path: Path) -> dict[str, Any]:
    plan = read_plan(str(path))
    return {manifest.kind: manifest.body for manifest in assertion.generate(plan)}


def test_nothing_is_rendered_without_being_asked_for(tmp_path: Path) -> None:
    assert made(project(tmp_path)) == {}


def test_the_account_may_list_and_nothing_else(tmp_path: Path) -> None:
    plan = read_plan(str(project(tmp_path, WANTED % "")))
    rules = [
        rule
        for manifest in assertion.generate(plan)
        if manifest.kind in ("Role", "ClusterRole")
        for rule in manifest.body["rules"]
    ]
    assert rules
    assert {verb for rule in rules for verb in rule["verbs"]} == {"list"}
    named = {resource for rule in rules for resource in rule["resources"]}
    assert "secrets" not in named
    assert "*" not in named
    everywhere = next(m for m in assertion.generate(plan) if m.kind == "ClusterRole")
    assert not [rule for rule in everywhere.body["rules"] if "configmaps" in rule["resources"]]


def test_what_is_mounted_amounts_to_the_same_objects(tmp_path: Path) -> None:
    """The files of the ConfigMap, laid out as the pod has them, are the project over again."""
    path = project(tmp_path / "mine", WANTED % ", pushgateway: 'http://push:9091'")
    found = made(path)
    pod = found["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    for mount in container["volumeMounts"]:
        place = tmp_path / "pod" / mount["mountPath"].lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(found["ConfigMap"]["data"][mount["subPath"]], encoding="utf-8")
    inside = tmp_path / "pod" / container["workingDir"].lstrip("/")
    again = read_plan(str(inside / "environments" / "trial.yaml"))
    assert again.text == path.read_text(encoding="utf-8")
    assert generate(again) == generate(read_plan(str(path)))
    wanted = ["gpupool", "assert", "trial", "--no-record", "--push", "http://push:9091"]
    assert container["command"] == wanted
    assert pod["volumes"][0]["configMap"]["name"] == found["ConfigMap"]["metadata"]["name"]


def test_policies_let_its_pod_in(tmp_path: Path) -> None:
    path = project(tmp_path, WANTED % "")
    plan = read_plan(str(path))
    report = policy_gate.judge(plan, date(2026, 11, 21), bundle=generate(plan))
    assert [str(finding) for finding in report.findings if "gpupool-assert" in str(finding)] == []
    policy_gate.require(str(path), report)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("image: registry.example/gpupool", "is not pinned"),
        ("image: 'registry.example/gpupool:latest'", "is not pinned"),
        ("image: 'registry.example:5000/gpupool'", "is not pinned"),
        ("image: 'registry.example/GPUPOOL:1'", "is no image reference: its name has capital letters"),
        ("image: 'registry.example/gpupool:1', schedule: hourly", "not a schedule of a CronJob"),
    ],
)
def test_what_a_cluster_would_refuse_is_refused_here(tmp_path: Path, given: str, message: str) -> None:
    path = project(tmp_path, f"monitoring: {{assertion: {{{given}}}}}\n")
    with pytest.raises(SpecError, match=message):
        read_plan(str(path))


def test_an_image_of_another_registry_is_refused(tmp_path: Path) -> None:
    limits = "policies: {limits: {registries: [internal.example/team]}}\n"
    with pytest.raises(SpecError, match=r"not from a registry in policies\.limits\.registries"):
        read_plan(str(project(tmp_path, WANTED % "" + limits)))
