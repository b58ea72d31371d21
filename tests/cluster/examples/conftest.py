"""`environments/local.yaml` on the shared control plane with its queue, as `make up` leaves them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.environment.plan.pods import LAUNCHER_USER
from gpupool.environment.plan.resolve import read_plan
from gpupool.generators import generate
from gpupool.live.cluster.kube_api import ApiError
from gpupool.local.control_plane import ControlPlane
from gpupool.local.job_queue import JobQueue
from gpupool.local.ports import free_port
from gpupool.programs.binaries import locate
from tests.cluster.kube import Kube
from tests.docs.test_readme import commands, matches
from tests.required_programs import require

ROOT = Path(__file__).parents[3]
Object = dict[str, Any]


class Examples:
    """Runs the commands of examples' pages in the checkout, on the cluster and queue of the tests."""

    def __init__(self, variables: dict[str, str]) -> None:
        self._variables = variables

    def shown(self, example: str) -> str:
        """What the commands of the example's page print, once it is what the page shows."""
        page = (ROOT / "examples" / example / "README.md").read_text(encoding="utf-8")
        printed = ""
        for command, expected in commands(page):
            done = subprocess.run(
                command,
                shell=True,
                cwd=ROOT,
                env=self._variables,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
            assert matches(expected, done.stdout), f"$ {command}\n{done.stdout}\n--- it shows:\n{expected}"
            printed += done.stdout
        assert printed, f"the page of {example} has no command"
        return printed


@pytest.fixture(scope="module")
def examples(control_plane: ControlPlane, kube: Kube) -> Iterator[Examples]:
    require("nats-server")
    kube.wipe()
    plan = read_plan(str(ROOT / "environments" / "local.yaml"))
    for manifest in generate(plan):
        kube.api.apply(manifest.body, "gpupool", force=True)
    kube.wait("policies are enforced", lambda: _enforced(kube, plan.tenants[0].namespace))
    # Not in pytest's own folder, which only this user enters: as root, the database has another account.
    folder = Path(tempfile.mkdtemp(prefix="gpupool-examples-"))
    port = str(free_port())
    path = [ROOT / ".venv" / "bin", locate("kubectl").parent, os.environ["PATH"]]
    variables = {
        **os.environ,
        "PATH": os.pathsep.join(map(str, path)),
        "KUBECONFIG": str(control_plane.kubeconfig),
        "GPUPOOL_LOCAL_DIR": str(control_plane.kubeconfig.parent),
        "GPUPOOL_QUEUE_DIR": str(folder),
        "GPUPOOL_PORT": port,
        "GPUPOOL_URL": f"http://127.0.0.1:{port}",
    }
    serve = "gpupool serve local --dev --echo http://example --background --kubeconfig"
    try:
        started = [*serve.split(), str(control_plane.kubeconfig), "--as", LAUNCHER_USER]
        subprocess.run(started, cwd=ROOT, env=variables, check=True, timeout=120)
        yield Examples(variables)
    finally:
        JobQueue(folder).stop()
        shutil.rmtree(folder, ignore_errors=True)
        kube.wipe()


@pytest.fixture(scope="module")
def operators(examples: Examples, kube: Kube) -> Iterator[Kube]:
    """The cluster with the kinds of operators that don't run there (crds.yaml)."""
    with kube.kinds(Path(__file__).with_name("crds.yaml")) as known:
        yield known


def _enforced(kube: Kube, namespace: str) -> bool:
    """Whether a pod is refused because its image is not pinned."""
    container = {"name": "probe", "image": "probe"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe"},
        "spec": {"containers": [container]},
    }
    try:
        kube.api.request("POST", f"/api/v1/namespaces/{namespace}/pods", {"dryRun": "All"}, pod)
    except ApiError as error:
        return "is not pinned" in str(error)
    return False
