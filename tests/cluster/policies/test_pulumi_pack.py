"""`pulumi preview|up --policy-pack` with the real engine: what passes, what is refused, what is only said."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.policy_pack import stack_policies
from gpupool.programs import binaries
from gpupool.pulumi_plugins import env as pulumi_env

PACK = Path(stack_policies.__file__).parents[2] / "policies" / "pack" / "run"
PROGRAM = """
import json, os, sys
from pathlib import Path
import pulumi
from gpupool.generators.manifest import Manifest
from gpupool.infra import resource_values

provider = pulumi.ProviderResource("kubernetes", "cluster", {"kubeconfig": os.environ["KUBECONFIG"]})
for body in json.loads(Path(__file__).with_name("objects.json").read_text()):
    one = Manifest(body)
    options = pulumi.ResourceOptions(provider=provider)
    pulumi.CustomResource(resource_values.type_token(one), resource_values.logical_name(one), body, options)
"""
Object = dict[str, Any]
Run = Callable[..., str]


@pytest.fixture
def pulumi(world: Any) -> Run:
    """Run `pulumi ARGS` in `folder` with what `gpupool local env` prints; the text that it says."""
    engine = binaries.locate("pulumi")
    variables = pulumi_env.environment("local", engine)

    def run(folder: Path, *args: str, expect: int = 0) -> str:
        done = subprocess.run(
            ["pulumi", "--non-interactive", "--color=never", *args, "--stack", "trial"],
            cwd=folder,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        text = done.stdout + done.stderr
        assert done.returncode == expect, text
        assert "Traceback" not in text
        return text

    return run


@pytest.fixture
def shop(world: Any, pulumi: Run) -> Iterator[Callable[..., Path]]:
    """Somebody's own project with these objects in its stack."""
    folder: Path = world.folder / "shop"
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text("name: shop\nruntime: python\nmain: program.py\n")
    (folder / "program.py").write_text(PROGRAM)
    pulumi(folder, "stack", "init")

    def project(*objects: Object) -> Path:
        (folder / "objects.json").write_text(json.dumps(objects))
        return folder

    yield project
    pulumi(folder, "destroy", "--yes", "--skip-preview")


def settings(**data: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "default"},
        "data": data,
    }


def policy(*actions: str) -> tuple[Object, Object]:
    """A policy that forbids debugging, with a binding."""
    group, name = "admissionregistration.k8s.io/v1", {"name": "trial-no-debugging"}
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["configmaps"],
    }
    return (
        {
            "apiVersion": group,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {**name, "annotations": {"policies.gpupool.dev/fix": "leave debug out"}},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [rule]},
                "validations": [
                    {
                        "expression": "!('debug' in object.data)",
                        "message": "debug is set",
                    }
                ],
            },
        },
        {
            "apiVersion": group,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": name,
            "spec": {"policyName": "trial-no-debugging", "validationActions": list(actions)},
        },
    )


def test_our_own_stack_passes(world: Any, pulumi: Run) -> None:
    project = world.project()
    pulumi(project, "stack", "init")
    text = pulumi(project, "preview", "--policy-pack", str(PACK))
    assert "gpupool@v" in text
    assert "[mandatory]" not in text
    assert "to create" in text


def test_a_denied_object_stops_preview_and_up(world: Any, pulumi: Run, shop: Any) -> None:
    folder = shop(settings(debug="yes"), *policy("Deny"))
    for command in (["preview"], ["up", "--yes"]):
        text = pulumi(folder, *command, "--policy-pack", str(PACK), expect=1)
        assert "[mandatory]" in text
        assert "ConfigMap/default/settings" in text
        assert "trial-no-debugging: ConfigMap default/settings data: debug is set" in text
        assert "fix: leave debug out" in text
    assert world.kube.api.get("v1", "ConfigMap", "settings", "default") is None, "something was sent"


def test_a_gpu_pod_outside_the_pools_is_denied_by_what_ships(pulumi: Run, shop: Any) -> None:
    """The policies of the folder hold for a stack that has none of its own."""
    resources = {"limits": {"nvidia.com/gpu": "1"}}
    container = {"name": "work", "image": "registry.example/work:1", "resources": resources}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "stray", "namespace": "default"},
        "spec": {"containers": [container]},
    }
    text = pulumi(shop(pod), "preview", "--policy-pack", str(PACK), expect=1)
    assert "gpu-pods-name-a-pool: Pod default/stray" in text


def test_a_warning_is_shown_and_stops_nothing(world: Any, pulumi: Run, shop: Any) -> None:
    folder = shop(settings(debug="yes"), *policy("Warn"))
    text = pulumi(folder, "up", "--yes", "--policy-pack", str(PACK))
    assert "[advisory]" in text
    assert "trial-no-debugging: ConfigMap default/settings data: debug is set" in text
    assert world.kube.get("v1", "ConfigMap", "settings", "default")["data"] == {"debug": "yes"}


def test_a_waiver_in_the_binding_holds(pulumi: Run, shop: Any) -> None:
    one, binding = policy("Deny")
    spared = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["default"]}
    binding["spec"]["matchResources"] = {"namespaceSelector": {"matchExpressions": [spared]}}
    text = pulumi(shop(settings(debug="yes"), one, binding), "preview", "--policy-pack", str(PACK))
    assert "debug is set" not in text


def test_what_a_secret_holds_is_not_shown(pulumi: Run, shop: Any) -> None:
    one, binding = policy("Deny")
    one["spec"]["matchConstraints"]["resourceRules"][0]["resources"] = ["secrets"]
    one["spec"]["validations"] = [
        {"expression": "false", "messageExpression": "'found ' + object.data.token"}
    ]
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "settings", "namespace": "default"},
        "data": {"token": "aHVudGVyMi1odW50ZXIy"},
    }
    text = pulumi(shop(secret, one, binding), "preview", "--policy-pack", str(PACK), expect=1)
    assert "message withheld" in text
    assert "aHVudGVyMi1odW50ZXIy" not in text
    assert "hunter2" not in text
