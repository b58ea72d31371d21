"""One environment file and its stack against the shared control plane, with everything undone afterwards."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import psutil
import pytest

from gpupool.environment.plan.resolve import read_plan
from gpupool.generators import generate
from gpupool.infra import stack
from gpupool.infra.stack import Result
from gpupool.live.cluster.kube_api import ApiError
from gpupool.local.control_plane import ControlPlane
from tests.cluster.operator_policy import hand_made_policy
from tests.environment_files import environment_data, write_environment

Object = dict[str, Any]

# Kinds that come and go by themselves.
_LIVELY = {"Event", "Lease", "Endpoints", "EndpointSlice", "CSINode", "APIService", "FlowSchema"}
# What the controller manager puts into every namespace, as soon as it gets to it.
_OF_NAMESPACES = {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}

EACH_STEP = """
from gpupool.cli import main, progress
progress._Progress.notify = lambda _, step: print(step, flush=True)
main.run()
"""
"""The `gpupool` command in a process of its own, reporting each step and not one now and then, to be ended
at any."""

_STEP = re.compile(rb"^(create|update|replace|delete) ")

ENVIRONMENT: Object = environment_data(
    "local",
    pools=[
        {
            "name": "notebooks",
            "overcommit": True,  # tests add tenants, and none of them runs a pod
            "gpu": "t4",
            "sharing": {"mode": "time-slicing", "replicas": 4},
            "nodes": {"instanceTypes": ["g4dn.xlarge"], "max": 2},
        },
        {
            "name": "models",
            "gpu": "a100-80gb",
            "sharing": {"mode": "mig", "layout": {"3g.40gb": 1, "2g.20gb": 2}},
            "nodes": {"instanceTypes": ["p4de.24xlarge"], "max": 1},
        },
    ],
    priorities=[{"name": "trial-training", "value": 500, "level": "high"}],
    tenants=[{"name": "vision", "namespace": "trial-vision", "pools": {"notebooks": {"gpus": 1}}}],
)


OWN_LABELS = {"rack": "r1", "gpupool.dev/legacy": "kept"}
OWN_TAINTS = [
    {"key": "dedicated", "value": "ml", "effect": "NoSchedule"},
    {"key": "noisy", "effect": "PreferNoSchedule"},
]
STATIC_POOL = {
    "name": "homelab",
    "gpu": "rtx-4070-ti-super",
    "sharing": {"mode": "time-slicing", "replicas": 4},
    "labels": {"workload-type": "research"},
}


_ADMISSION = "admissionregistration.k8s.io/v1"
_NO_MODELS = "trial-no-models"


@contextlib.contextmanager
def no_models(world: World) -> Iterator[None]:
    """The API server refuses the pool `models` meanwhile, by a policy of somebody else's."""
    rule = {
        "apiGroups": ["karpenter.sh"],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["nodepools"],
    }
    # As many webhooks answer; a provider's preview passes over it.
    why = {"message": "no models here", "reason": "Forbidden"}
    check = {"expression": "object.metadata.name != 'models'", **why}
    policy = {"matchConstraints": {"resourceRules": [rule]}, "validations": [check]}
    binding = {"policyName": _NO_MODELS, "validationActions": ["Deny"]}
    kinds = {"ValidatingAdmissionPolicy": policy, "ValidatingAdmissionPolicyBinding": binding}
    for kind, spec in kinds.items():
        world.kube.apply(
            {"apiVersion": _ADMISSION, "kind": kind, "metadata": {"name": _NO_MODELS}, "spec": spec}
        )
    (pool,) = [
        one for one in generate(read_plan(world.file)) if one.kind == "NodePool" and one.name == "models"
    ]

    def refused() -> bool:
        try:
            world.kube.api.apply(pool.body, "trial", dry_run=True)
        except ApiError:
            return True
        return False

    try:
        world.kube.wait("the policy is enforced", refused)  # the API server takes a few seconds
        yield
    finally:
        for kind in reversed(kinds):
            world.kube.api.delete(_ADMISSION, kind, _NO_MODELS)


def begun(world: World, variables: dict[str, str], verb: str, steps: int) -> subprocess.Popen[bytes]:
    """`gpupool VERB`, when it has begun so many steps: at the same place of a run on any machine."""
    root = Path(__file__).parents[3]
    process = subprocess.Popen(
        [sys.executable, "-c", EACH_STEP, verb, world.file, "--yes"],
        cwd=root,
        env={**variables, "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,  # so that nothing read ahead is missing from what is read at the end
    )
    assert process.stdout is not None
    seen = list[bytes]()
    while sum(_STEP.search(line) is not None for line in seen) < steps:
        line = process.stdout.readline()
        assert line, b"".join(seen).decode()
        seen.append(line)
    return process


def kill_all(process: subprocess.Popen[bytes]) -> None:
    """Kill a command and everything that belongs to it."""
    ours = psutil.Process(process.pid)
    # The parent first and stopped, so that it starts nothing more while the others are looked for.
    ours.send_signal(signal.SIGSTOP)
    for victim in (*ours.children(recursive=True), ours):
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.kill()
    process.communicate(timeout=300)


class World:
    """The environment of one test. `spec` is what the next command will read."""

    def __init__(self, folder: Path, kube: Any) -> None:
        self.folder = folder
        self.kube = kube
        self.spec = deepcopy(ENVIRONMENT)

    @property
    def file(self) -> str:
        """The environment file, written again from `spec`."""
        return str(write_environment(self.folder, self.spec))

    def project(self) -> Path:
        """A project like ours, whose only environment is this one, for the plain Pulumi CLI."""
        root, project = Path(__file__).parents[3], self.folder / "project"
        if not project.exists():
            shutil.copytree(root / "infra", project / "infra", ignore=shutil.ignore_patterns("__pycache__"))
            shutil.copy(root / "Pulumi.yaml", project)
            (project / "environments").mkdir()
        shutil.copy(self.file, project / "environments")
        return project

    @property
    def state(self) -> Path:
        """The folder that holds the stack's state."""
        return self.folder / "local" / "pulumi"

    def up(self, *allow_delete: str) -> Result:
        return stack.up(stack.read(self.file), allow_delete)

    def preview(self, *allow_delete: str) -> Result:
        return stack.preview(stack.read(self.file), allow_delete=allow_delete)

    def refresh(self) -> Result:
        return stack.refresh(stack.read(self.file))

    def destroy(self) -> Result:
        return stack.destroy(self.file)

    def forget(self) -> None:
        """Remove what the stack leaves in the checkout: settings, and where its cluster is not the local one
        also its state."""
        root, name = Path(__file__).parents[3], self.spec["metadata"]["name"]
        (root / ".gpupool" / "stacks" / f"Pulumi.{name}.yaml").unlink(missing_ok=True)
        for left in (*root.glob(f".pulumi/*/*/{name}"), *root.glob(f".pulumi/*/*/{name}.json*")):
            shutil.rmtree(left) if left.is_dir() else left.unlink()

    def everything(self) -> set[tuple[str, str | None, str]]:
        """(kind, namespace, name) of every object in the cluster that does not come and go by itself."""
        found = set()
        for version in self._versions():
            root = f"/apis/{version}" if "/" in version else f"/api/{version}"
            for row in self._answer(root).get("resources", ()):
                if "list" not in row["verbs"] or "/" in row["name"] or row["kind"] in _LIVELY:
                    continue
                for item in self._answer(f"{root}/{row['name']}").get("items", ()):
                    meta = item["metadata"]
                    if (row["kind"], meta["name"]) in _OF_NAMESPACES:
                        continue
                    found.add((row["kind"], meta.get("namespace"), meta["name"]))
        return found

    def _answer(self, path: str) -> Object:
        """What the server has at `path`; nothing where a kind of another test is just going."""
        try:
            found: Object = self.kube.api.request("GET", path)[1]
            return found
        except ApiError as error:
            if error.status != 404:
                raise
            return {}

    def _versions(self) -> list[str]:
        groups = self.kube.api.request("GET", "/apis")[1]["groups"]
        return ["v1", *(group["preferredVersion"]["groupVersion"] for group in groups)]


def changes(result: Result) -> dict[str, str]:
    """Name in Pulumi -> operation of everything that a run changed."""
    return {entry.resource: entry.op for entry in result.objects}


@pytest.fixture
def world(
    control_plane: ControlPlane, cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    """An environment with its own state, on a cluster with nothing else in it."""
    local = tmp_path / "local"
    local.mkdir()
    shutil.copy(control_plane.kubeconfig, local / "kubeconfig")
    monkeypatch.setenv("GPUPOOL_LOCAL_DIR", str(local))
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))
    for name in ("PULUMI_BACKEND_URL", "PULUMI_DEBUG_PROVIDERS", "PULUMI_DEBUG_LANGUAGES"):
        monkeypatch.delenv(name, raising=False)
    made = World(tmp_path, cluster)
    yield made  # `cluster` removes what is left, which takes less than `destroy`
    made.forget()


@pytest.fixture
def homelab(world: Any, make_node: Callable[..., str], request: pytest.FixtureRequest) -> Any:
    """A static environment with one node that has labels and taints of its own. Its state is in the checkout,
    so that each module has one of its own name: they run side by side."""
    name = f"trial-{request.path.stem.rpartition('_')[2]}"
    make_node("k3s-gpu-0", labels=OWN_LABELS, taints=OWN_TAINTS)
    world.spec["metadata"]["name"] = name
    world.spec["cluster"] = {"platform": "static", "name": name}
    world.forget()
    world.spec["pools"] = [{**STATIC_POOL, "nodes": {"names": ["k3s-gpu-0"]}}]
    world.spec["tenants"] = []
    # Somebody else runs the operator there; charts have tests of their own (test_pulumi_charts.py).
    world.spec["gpuOperator"] = {"install": False}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-operator"}}
    world.kube.api.create(namespace)
    world.kube.apply(hand_made_policy())
    return world


@pytest.fixture
def environment_variables() -> dict[str, str]:
    """A copy of this process' environment for child processes."""
    return dict(os.environ)
