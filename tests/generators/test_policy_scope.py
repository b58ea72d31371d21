"""What other teams run in the cluster is not judged by the policies, unless the environment says so; and what
gpupool runs itself passes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupool.environment.plan.checks.images import own_images
from gpupool.environment.plan.device_classes import GPU_CLASSES, uncounted_devices
from gpupool.environment.plan.model import SYSTEM_NAMESPACE, Plan
from gpupool.environment.plan.policy_files import POLICY, SHIPPED, read_objects
from gpupool.environment.plan.resolve import read_plan
from gpupool.environment.spec.load import environment_names, load
from gpupool.findings import SpecError
from gpupool.generators import admission_policies, generate
from gpupool.policy.check import Question, run
from tests.admission import judge_of, said
from tests.environment_files import environment_data, write_environment
from vapcheck import PolicyFinding

ROOT = Path(__file__).parents[2]
OTHER_TEAMS = ROOT / "tests" / "other_teams.yaml"
EVERY_FIELD = ROOT / "tests" / "environment" / "plan" / "every-field-eks.yaml"
CONTAINMENT = ROOT / "tests" / "cluster" / "containment" / "environment.yaml"
"""Every kind of sharing, a pool without taints, and registries that are listed."""


def given_to(environment: Path, tmp_path: Path, **policies: Any) -> Path:
    """The environment with other policies."""
    written = yaml.safe_load(environment.read_text(encoding="utf-8"))
    written["policies"] = {**(written.get("policies") or {}), **policies}
    return write_environment(tmp_path, written)


def judged(environment: Path) -> list[PolicyFinding]:
    """What policies have against the objects of other teams. That Namespaces are not given is no matter."""
    check = run(Question((str(environment), str(OTHER_TEAMS))), lambda _: None)
    return [finding for finding in check.report.findings if finding.origin == "policy"]


@pytest.mark.parametrize("name", environment_names())
def test_objects_of_other_teams_pass_every_shipped_environment(name: str) -> None:
    assert judged(ROOT / "environments" / f"{name}.yaml") == []


def test_objects_of_other_teams_pass_where_registries_are_listed(tmp_path: Path) -> None:
    assert judged(given_to(CONTAINMENT, tmp_path)) == []


def test_in_the_whole_cluster_they_are_judged(tmp_path: Path) -> None:
    file = given_to(CONTAINMENT, tmp_path, scope="cluster")
    refused = {finding.rule for finding in judged(file) if finding.level == "deny"}
    assert refused == {
        "images-from-allowed-registries",
        "node-pools-are-bounded",
        "pin-images",
        "pods-use-no-claims",
        "quotas-count-gpus",
        "quotas-stay-within-capacity",
        "restricted-pods",
    }


def shipped_policies() -> Iterator[tuple[str, dict[str, Any]]]:
    for body in read_objects(sorted(SHIPPED.glob("*.yaml"))):
        if body["kind"] == POLICY:
            yield body["metadata"]["name"], body["spec"]


def test_which_pods_are_judged_is_said_in_one_way() -> None:
    said = {
        row["expression"]
        for _, spec in shipped_policies()
        if any("pods" in rule["resources"] for rule in spec["matchConstraints"]["resourceRules"])
        for row in spec.get("variables", ())
        if row["name"] == "bound"
    }
    assert len(said) == 1


def rendered(plan: Plan) -> dict[str, dict[str, Any]]:
    found = (manifest.body for manifest in admission_policies.generate(plan) if manifest.kind == POLICY)
    return {body["metadata"]["name"]: body["spec"] for body in found}


def test_the_whole_cluster_lifts_the_bound_and_nothing_else(tmp_path: Path) -> None:
    file = given_to(CONTAINMENT, tmp_path, scope="cluster")
    after = rendered(read_plan(str(file)))
    for name, spec in shipped_policies():
        rows = [
            {**row, "expression": "true"} if row["name"] == "bound" else row
            for row in spec.get("variables", ())
        ]
        assert after[name] == {**spec, **({"variables": rows} if rows else {})}


def test_pods_may_use_claims_where_a_class_is_allowed(tmp_path: Path) -> None:
    limits = {"deviceClasses": ["rdma.example.com"]}
    file = given_to(CONTAINMENT, tmp_path, limits=limits)
    plan = read_plan(str(file))
    assert "pods-use-no-claims" in rendered(plan)
    (parameters,) = (one for one in generate(plan) if one.name == "gpupool-limits")
    assert parameters.body["data"]["deviceClasses"] == "rdma.example.com"
    assert parameters.body["data"]["gpuClasses"].split() == sorted(GPU_CLASSES)


_BY_CLASS = "deviceclass.resource.kubernetes.io/"


def claiming(namespace: str, resource: str = "", claim: bool = False) -> dict[str, Any]:
    container = {"name": "work", "image": "registry.example/ml/work:1"}
    limits = {"resources": {"limits": {resource: "1"}}} if resource else {}
    claims = {"resourceClaims": [{"name": "devices", "resourceClaimTemplateName": "any"}]} if claim else {}
    metadata = {"name": "claiming", "namespace": namespace}
    spec = {"containers": [container | limits], **claims}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize("scope", ["gpu", "cluster"])
def test_an_allowed_class_allows_no_other(tmp_path: Path, scope: str) -> None:
    limits = {"deviceClasses": ["nic.example.com"]}
    file = given_to(CONTAINMENT, tmp_path, limits=limits, scope=scope)
    judge = judge_of(read_plan(str(file)))

    def refused(namespace: str, resource: str = "", claim: bool = False) -> bool:
        denials = said(judge, claiming(namespace, resource, claim))
        return any(denial.startswith("deny pods-use-no-claims") for denial in denials)

    for namespace in ("team-vision", "default", "gpupool-system"):
        assert not refused(namespace, f"{_BY_CLASS}nic.example.com")
        assert not refused(namespace, claim=True)
        for name in GPU_CLASSES:
            assert refused(namespace, _BY_CLASS + name)
    assert refused("team-vision", f"{_BY_CLASS}other.example.com")
    assert refused("default", f"{_BY_CLASS}other.example.com") == (scope == "cluster")


def test_quotas_count_to_zero_what_is_not_allowed_alone(tmp_path: Path) -> None:
    limits = {"deviceClasses": ["mig.nvidia.com"]}
    file = given_to(CONTAINMENT, tmp_path, limits=limits)
    quotas = [one.body for one in generate(read_plan(str(file))) if one.kind == "ResourceQuota"]
    hard = [body["spec"]["hard"] for body in quotas if body["metadata"]["name"] == "gpupool"]
    for counts in hard:
        devices = {entry for entry in counts if "deviceclass" in entry}
        assert devices == {
            "vfio.gpu.nvidia.com.deviceclass.resource.k8s.io/devices",
            "requests.deviceclass.resource.kubernetes.io/vfio.gpu.nvidia.com",
        }


@pytest.mark.parametrize("name", environment_names())
def test_quotas_leave_no_device_uncounted(name: str) -> None:
    """Of classes with an extended resource a quota would stop pods that ask for the resource."""
    assert not [
        entry for entry in uncounted_devices() if "/gpu.nvidia.com" in entry or entry.startswith("gpu.")
    ]
    quotas = [manifest.body for manifest in generate(read_plan(name)) if manifest.kind == "ResourceQuota"]
    counting = [body["spec"]["hard"] for body in quotas if body["metadata"]["name"] == "gpupool"]
    assert counting
    for hard in counting:
        assert {entry: hard.get(entry) for entry in uncounted_devices()} == dict.fromkeys(
            uncounted_devices(), "0"
        )


def images(body: Any) -> Iterator[str]:
    """Of all containers in an object."""
    if isinstance(body, dict):
        for key, value in body.items():
            if key in ("containers", "initContainers"):
                yield from (container["image"] for container in value)
            yield from images(value)
    elif isinstance(body, list):
        for item in body:
            yield from images(item)


@pytest.mark.parametrize("file", [*(ROOT / "environments").glob("*.yaml"), EVERY_FIELD], ids=lambda f: f.stem)
def test_every_image_that_is_rendered_is_checked(file: Path) -> None:
    environment = load(file).environment
    assert environment is not None
    plan = read_plan(str(file))
    ours = (one.body for one in generate(plan) if one.namespace == SYSTEM_NAMESPACE)
    assert set(images(list(ours))) <= {image for _, image in own_images(environment)}


def problems(tmp_path: Path, karpenter: Any = None, **policies: Any) -> list[str]:
    environment = environment_data(
        "eks",
        karpenter={"nodeRole": "nodes", **(karpenter or {})},
        pools=[{"name": "p", "gpu": "t4", "nodes": {"instanceTypes": ["g4dn.xlarge"], "max": 4, "warm": 1}}],
        policies={"limits": {"registries": ["registry.example.com"]}, **policies},
    )
    file = write_environment(tmp_path, environment)
    try:
        read_plan(str(file))
    except SpecError as error:
        return [finding.path for finding in error.findings]
    return []


def test_the_image_of_warm_pods_is_of_an_allowed_registry(tmp_path: Path) -> None:
    rule = "images-from-allowed-registries"
    waiver = {"policy": rule, "owner": "a", "reason": "b", "until": "2099-01-01"}
    elsewhere, here = {**waiver, "namespace": "team-x"}, {**waiver, "namespace": SYSTEM_NAMESPACE}
    image = "registry.example.com/pause:3.10"
    assert problems(tmp_path) == ["karpenter.warmPodImage"]
    assert problems(tmp_path, waivers=[elsewhere]) == ["karpenter.warmPodImage"]
    assert problems(tmp_path, waivers=[here]) == []
    assert problems(tmp_path, default="warn") == []
    latest = image.replace("3.10", "latest")
    assert problems(tmp_path, {"warmPodImage": latest}) == ["karpenter.warmPodImage"]
    assert problems(tmp_path, {"warmPodImage": image}) == []
    plan = read_plan(str(tmp_path / "trial.yaml"))
    (deployment,) = (one.body for one in generate(plan) if one.kind == "Deployment")
    assert list(images(deployment)) == [image]
