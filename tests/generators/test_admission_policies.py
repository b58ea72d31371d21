"""Policies go out as they are written; bindings as the environment wants them enforced."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.policy_files import (
    BINDING,
    POLICY,
    SHIPPED,
    PolicyFileError,
    policy_names,
    read_objects,
)
from gpupool.environment.plan.resolve import read_plan
from gpupool.environment.spec.services import Waiver
from gpupool.generators import admission_policies, generate
from gpupool.generators.admission_policies import WAIVED
from gpupool.generators.manifest import Manifest
from tests.environment_files import environment_data, write_environment

Object = dict[str, Any]


def binding(name: str, actions: list[str], **spec: Any) -> Object:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": BINDING,
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": actions, **spec},
    }


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with `environments/` and `policies/`, as users have it."""
    (tmp_path / "policies").mkdir()
    return tmp_path


def plan_in(project: Path, **policies: Any) -> Plan:
    file = write_environment(project / "environments", environment_data("local", policies=policies))
    return read_plan(str(file))


def write(project: Path, name: str, *bodies: Object) -> None:
    (project / "policies" / name).write_text(yaml.safe_dump_all(bodies))


def policy(name: str) -> Object:
    return {**binding(name, []), "kind": POLICY, "spec": {"validations": [{"expression": "true"}]}}


def made(plan: Plan, kind: str = BINDING) -> dict[str, Manifest]:
    return {
        manifest.name: manifest for manifest in admission_policies.generate(plan) if manifest.kind == kind
    }


def actions(plan: Plan, name: str) -> list[str]:
    return list(made(plan)[name].body["spec"]["validationActions"])


def test_every_shipped_policy_is_rendered_as_it_is_written() -> None:
    shipped = {
        body["metadata"]["name"]: body
        for body in read_objects(sorted(SHIPPED.glob("*.yaml")))
        if body["kind"] == POLICY
    }
    rendered = made(read_plan("prod"), POLICY)
    assert set(rendered) == set(shipped)
    for name, manifest in rendered.items():
        assert manifest.body["spec"] == shipped[name]["spec"]
        assert manifest.labels["gpupool.dev/environment"] == "prod"
        assert name in made(read_plan("prod")), "a policy without a binding guards nothing"


@pytest.mark.parametrize(
    ("default", "written", "enforced"),
    [
        ("deny", ["Deny"], ["Deny"]),
        ("deny", ["Warn"], ["Warn"]),
        ("deny", ["Deny", "Audit"], ["Deny", "Audit"]),
        ("warn", ["Deny"], ["Warn"]),
        ("warn", ["Deny", "Audit"], ["Warn", "Audit"]),
        ("warn", ["Audit"], ["Audit"]),
        ("audit", ["Deny"], ["Audit"]),
        ("audit", ["Warn", "Audit"], ["Audit"]),
        ("warn", ["Denied"], ["Denied"]),
        ("warn", ["deny"], ["deny"]),
    ],
)
def test_the_default_weakens_and_never_strengthens(
    project: Path, default: str, written: list[str], enforced: list[str]
) -> None:
    write(project, "own.yaml", policy("own"), binding("own", written))
    assert actions(plan_in(project, default=default), "own") == enforced


@pytest.mark.parametrize("wanted", ["deny", "warn", "audit"])
@pytest.mark.parametrize("written", ["Deny", "Warn", "Audit"])
def test_an_override_is_exact(project: Path, written: str, wanted: str) -> None:
    write(project, "own.yaml", policy("own"), binding("own", [written]))
    plan = plan_in(project, default="audit", overrides={"own": wanted})
    assert actions(plan, "own") == [wanted.capitalize()]


def waiver(**more: str) -> dict[str, str]:
    return {"policy": "own", "owner": "mlops", "reason": "moves in June", "until": "2027-03-31", **more}


def test_a_waiver_takes_its_namespaces_out_and_is_noted(project: Path) -> None:
    chosen = {
        "namespaceSelector": {
            "matchLabels": {"a": "b"},
            "matchExpressions": [{"key": "k", "operator": "Exists"}],
        }
    }
    write(project, "own.yaml", policy("own"), binding("own", ["Deny"], matchResources=chosen))
    plan = plan_in(project, waivers=[waiver(namespace="old"), waiver(namespace="legacy", owner="infra")])
    body = made(plan)["own"].body
    assert body["spec"]["validationActions"] == ["Deny"]
    assert body["spec"]["matchResources"]["namespaceSelector"] == {
        "matchLabels": {"a": "b"},
        "matchExpressions": [
            {"key": "k", "operator": "Exists"},
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["legacy", "old"]},
        ],
    }
    assert body["metadata"]["annotations"] == {
        f"{WAIVED}legacy": "infra, until 2027-03-31: moves in June",
        f"{WAIVED}old": "mlops, until 2027-03-31: moves in June",
    }
    assert "matchResources" not in made(plan)["gpu-pods-name-a-pool"].body["spec"], (
        "no other policy is waived"
    )
    assert chosen["namespaceSelector"]["matchExpressions"] == [{"key": "k", "operator": "Exists"}]


def test_a_waiver_for_everywhere_leaves_the_audit_log(project: Path) -> None:
    write(project, "own.yaml", policy("own"), binding("own", ["Deny"]))
    plan = plan_in(project, overrides={"own": "deny"}, waivers=[waiver()])
    body = made(plan)["own"].body
    assert body["spec"]["validationActions"] == ["Audit"]
    assert body["metadata"]["annotations"] == {
        f"{WAIVED}Everywhere": "mlops, until 2027-03-31: moves in June"
    }


def test_an_ended_waiver_is_rendered_like_any_other(project: Path) -> None:
    write(project, "own.yaml", policy("own"), binding("own", ["Deny"]))
    plan = plan_in(project, waivers=[waiver(until="2001-01-01", namespace="old")])
    assert "matchResources" in made(plan)["own"].body["spec"]
    (given,) = plan.policies.waivers_of("own")
    last = date(2001, 1, 1)
    assert given == Waiver(policy="own", namespace="old", owner="mlops", reason="moves in June", until=last)
    assert not given.expired(date(2001, 1, 1)), "the last day counts"
    assert given.expired(date(2001, 1, 2))


def test_files_of_the_project_add_to_the_shipped_and_go_before_them(project: Path) -> None:
    write(project, "own.yaml", policy("own"))
    write(project, "pin-images.yaml", policy("pin-images"))
    plan = plan_in(project)
    names = policy_names(plan.policies.files)
    assert "own" in names
    assert names - {"own"} == policy_names(read_plan("prod").policies.files)
    assert made(plan, POLICY)["pin-images"].body["spec"] == {"validations": [{"expression": "true"}]}
    assert "pin-images" not in made(plan)


def test_policies_come_last_and_after_what_they_judge_by() -> None:
    kinds = [manifest.kind for manifest in generate(read_plan("prod"))]
    assert kinds[-1] == BINDING
    assert kinds.index(POLICY) > max(place for place, kind in enumerate(kinds) if kind == "ConfigMap")


A_BINDING = f"{{apiVersion: v1, kind: {BINDING}, metadata: {{name: a}}"
WRONG = {
    "spec: [": "not YAML",
    "just text": "document 1: it is not a Kubernetes object",
    "{apiVersion: v1, kind: ConfigMap, metadata: {}}": "no apiVersion or no metadata.name",
    "{apiVersion: v1, kind: Secret, metadata: {name: a}}": "kind 'Secret' is none of",
    "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: [b]}}": "metadata.labels is not a mapping",
    f"{A_BINDING}, spec: 5}}": "spec is not a mapping",
    f"{A_BINDING}, spec: {{validationActions: Deny}}}}": "write [Deny]",
    f"{A_BINDING}, spec: {{matchResources: []}}}}": "is not a mapping",
    "{apiVersion: v1, kind: ConfigMap, metadata: {name: pin-images, namespace: a}}\n---\n"
    "{apiVersion: v1, kind: ConfigMap, metadata: {name: pin-images, namespace: a}}": (
        "is also in another file"
    ),
}


@pytest.mark.parametrize("text", WRONG)
def test_a_file_that_is_no_policy_is_named(project: Path, text: str) -> None:
    (project / "policies" / "wrong.yaml").write_text(text)
    with pytest.raises(PolicyFileError, match=r"policies/wrong\.yaml") as caught:
        generate(plan_in(project))
    assert WRONG[text] in str(caught.value)
