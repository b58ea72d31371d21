"""The queue as its chart deploys it: each pod of the rendered Deployments is a process here, with the pod's
arguments, files and service account, whose token the API server has made. No user is impersonated, and no
process has more than its pod.

The long form (`make test-all`) does the same with containers: of the Dockerfile's image, with the user, the
read-only root file system and the capabilities that the pod says.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from gpupool.client import Client
from gpupool.environment import shipped
from gpupool.environment.plan.model import SYSTEM_NAMESPACE
from gpupool.environment.plan.pods import JOB_LABEL
from gpupool.local.control_plane import ControlPlane
from gpupool.queue.store.embedded import Embedded
from tests.cluster.kube import Kube
from tests.cluster.queue.conftest import ENVIRONMENT, made_database
from tests.cluster.queue.helm import Helm
from tests.cluster.queue.image import Image, built, seen
from tests.cluster.queue.served import PATIENCE_S, Process, Queue, apply, gpupool, simulated
from tests.cluster.queue.test_runs import submit
from tests.cluster.queue.test_token_review import request_token
from tests.required_programs import require

Object = dict[str, Any]
TENANT = "queue-vision"
DATABASE = "GPUPOOL_DATABASE_URL"
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where kubelet puts an account's token and the server's certificate."""
IN_POD = f'mount -t tmpfs none /run && mkdir -p {ACCOUNT} && mount --bind "$0" {ACCOUNT} && exec "$@"'
UNSHARE = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
"""A process with mounts of its own."""


@pytest.fixture(scope="module", params=["processes", "containers"])
def image(request: pytest.FixtureRequest) -> Iterator[Image | None]:
    """What containers are made of; None where the pods are processes."""
    if request.param == "processes":
        if subprocess.run([*UNSHARE, "true"], check=False).returncode:
            pytest.skip("this machine allows no process mounts of its own (unshare --mount)")
        yield None
        return
    # Not in pytest's own folder, which only this user enters.
    with tempfile.TemporaryDirectory(prefix="gpupool-image-") as folder, built(Path(folder)) as made:
        yield made


@pytest.fixture(scope="module")
def deployed(
    kube: Kube,
    control_plane: ControlPlane,
    postgres: Embedded,
    image: Image | None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Queue]:
    """The processes of the release, ready, after the migration."""
    kube.wipe()
    folder = tmp_path_factory.mktemp("deployed")
    local = yaml.safe_load(ENVIRONMENT.read_text(encoding="utf-8"))
    release = {
        "chart": {
            "repository": "oci://registry.example.com/charts",
            "image": "registry.example.com/gpupool:1",
        },
        "database": {"secretRef": {"name": "queue-database", "key": "url"}},
    }
    # An empty database: its tables are the migration's to make.
    with made_database(postgres, "deployed", "template1") as url:
        queue = Queue(kube, control_plane, simulated({**local, "queue": release}), url, folder)
        apply(kube, Queue(kube, control_plane, local, url, tmp_path_factory.mktemp("local")).plan)
        rendered = Helm(require("helm")["helm"], folder, environment=queue.file).template()
        try:
            for body in rendered:
                if body["kind"] == "Job":
                    _migrate(queue, body["spec"]["template"]["spec"], image)
            for body in rendered:
                if body["kind"] == "Deployment":
                    _start(queue, body["metadata"]["name"], body["spec"]["template"]["spec"], rendered, image)
            for process in queue.processes:
                process.until_ready()
            yield queue
        finally:
            queue.stop()
            kube.wipe()


def _migrate(queue: Queue, pod: Object, image: Image | None) -> None:
    """The hook's Job."""
    (container,) = pod["containers"]
    variables = {DATABASE: queue.database}
    python, *arguments = asked = container["command"]
    assert python == "python"
    if image is None:
        command, env = [sys.executable, *arguments], {**shipped.variables(), **variables}
    else:
        place = queue.folder / "migration"
        command, env = image.command(place, pod, asked, variables, _sockets(queue)), None
    subprocess.run(command, env=env, check=True, timeout=120)


def _start(queue: Queue, name: str, pod: Object, rendered: list[Object], image: Image | None) -> None:
    """The pod of a Deployment. Only its port is another: all of them are on one machine."""
    (container,) = pod["containers"]
    folder = queue.folder / name
    (texts,) = (body["data"] for body in rendered if body["kind"] == "ConfigMap")
    for item in next(volume for volume in pod["volumes"] if volume["name"] == "files")["configMap"]["items"]:
        file = folder / item["path"]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(texts[item["key"]], encoding="utf-8")
    serve, *arguments = container["args"]
    assert serve == "serve"
    arguments.remove("--port=8021")
    server = urlsplit(queue.kube.api.server)
    variables = {
        **{one["name"]: one["value"] for one in container["env"] if "value" in one},
        **{one["name"]: queue.database for one in container["env"] if one["name"] == DATABASE},
        "KUBERNETES_SERVICE_HOST": str(server.hostname),
        "KUBERNETES_SERVICE_PORT": str(server.port),
        "KUBECONFIG": "/nowhere",
    }
    files = {"/etc/gpupool": folder}
    if pod["automountServiceAccountToken"]:
        files[ACCOUNT] = _account(queue, pod["serviceAccountName"])

    def command(asked: list[str]) -> list[str]:
        if image is not None:
            place = queue.folder / f"{name}-container"
            return image.command(place, pod, asked, variables, files | _sockets(queue))
        before = [*UNSHARE, "sh", "-c", IN_POD, str(files[ACCOUNT])] if ACCOUNT in files else []
        return [*before, *gpupool(asked)]

    process = Process(arguments, variables, queue.folder / f"{name}.log", command=command, folder=folder)
    queue.processes.append(process)
    process.start()


def _account(queue: Queue, name: str) -> Path:
    """What kubelet mounts of a service account."""
    folder = queue.folder / f"{name}-account"
    folder.mkdir()
    (folder / "token").write_text(request_token(queue.kube.api, SYSTEM_NAMESPACE, name))
    (folder / "ca.crt").write_bytes(queue.plane.layout.certificate.read_bytes())
    return folder


def _sockets(queue: Queue) -> dict[str, Path]:
    """The folder of the database's socket, which any user may open from now on."""
    (folder,) = parse_qs(urlsplit(queue.database).query)["host"]
    (socket,) = Path(folder).glob(".s.PGSQL.*[0-9]")
    Path(folder).chmod(0o711)
    socket.chmod(0o777)
    return {folder: Path(folder)}


@pytest.fixture(scope="module")
def team(deployed: Queue) -> Iterator[Client]:
    """As a pod of a tenant asks: by its own token, which says whose it is."""
    about = {"name": "worker", "namespace": TENANT}
    deployed.kube.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": about})
    token = request_token(deployed.kube.api, TENANT, "worker", audiences=["gpupool"])
    (api,) = (one for one in deployed.processes if one.log.name == "gpu-scheduler.log")
    with Client(api.address, key=token) as client:
        yield client


def test_a_job_runs(deployed: Queue, team: Client) -> None:
    job = submit(team, "true")
    assert job.data["user_id"] == f"system:serviceaccount:{TENANT}:worker"
    assert job.wait(PATIENCE_S).state == "succeeded"
    deployed.until("nothing of it is held", lambda: not _finalizers(deployed, job.id))


def test_a_job_that_runs_is_cancelled(deployed: Queue, team: Client) -> None:
    job = submit(team, "true")
    deployed.until("its Job exists", lambda: _finalizers(deployed, job.id))
    team.cancel_job(job.id)
    job.wait(PATIENCE_S)
    deployed.until("nothing of it is held", lambda: not _finalizers(deployed, job.id))


def _finalizers(queue: Queue, job: str) -> list[str]:
    """Of the job's Jobs and pods: there as long as something is not recorded."""
    selector = f"{JOB_LABEL}={job}"
    found = [
        *queue.kube.api.list("batch/v1", "Job", TENANT, selector),
        *queue.kube.api.list("v1", "Pod", TENANT, selector),
    ]
    return [name for one in found for name in one["metadata"].get("finalizers", ())]


def test_nothing_was_refused(deployed: Queue) -> None:
    for process in deployed.processes:
        assert "cannot" not in process.log.read_text(), process.log


def test_containers_are_what_their_pods_say(deployed: Queue, image: Image | None) -> None:
    if image is None:
        pytest.skip("processes have neither a user nor a root file system of their own here")
    for process in deployed.processes:
        users, root = seen(deployed.folder / f"{process.log.stem}-container")
        assert users == {"65532"}
        assert root.split(",")[0] == "ro"
        assert "Read-only file system" not in process.log.read_text()
