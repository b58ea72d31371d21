"""Kueue beside our queue in `make bench`: built on demand from tools/kueue, run out of the cluster.

Its webhooks are left out, in its favour: Jobs are created suspended with the label of their queue, as its
webhook would make them, and its objects are of the version that is stored, so that none is converted. Its
clients may send as many requests as they like.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from gpupool.cluster.kube_api import KubeApi
from gpupool.local import crds
from gpupool.local.control_plane import ControlPlane
from gpupool.local.ports import free_port
from gpupool.programs import binaries, gobuild
from tests.perf.measure import Failed

MODULE = "sigs.k8s.io/kueue"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
QUEUE = "bench"
_API = "kueue.x-k8s.io/v1beta2"
_PATIENCE_S = 60.0
# It exits unless there is a certificate for its metrics, metrics or not: it gets an /etc of its own with one.
_WITH_CERTIFICATES = (
    "mount -t tmpfs none /etc && mkdir -p /etc/kueue/metrics/certs && "
    'cp "$1" /etc/kueue/metrics/certs/tls.crt && cp "$2" /etc/kueue/metrics/certs/tls.key && '
    'exec "$3" --config="$4" --zap-log-level=error'
)


def program() -> Path:
    """The program, built first if need be. Raises LocalError when it can't be."""
    version = binaries.pinned_version("kueue", MODULE)
    found = binaries.Program(
        name="kueue",
        tool="kueue",
        module=MODULE,
        package=f"{MODULE}/cmd/kueue",
        version=version,
        ldflags="-s -w",
        megabytes=0,
        seconds=600,
        version_args=(),
        accepts="",
    )
    job = gobuild.Build(
        f"kueue {version}", found.source, found.ldflags, {found.package: found.cached}, found.seconds
    )
    gobuild.build(job, lambda text: print(text, file=sys.stderr, flush=True))
    return found.cached


@contextmanager
def running(plane: ControlPlane, folder: Path, quota: dict[str, int], namespaces: list[str]) -> Iterator[int]:
    """Kueue on the control plane, with a queue for each namespace that shares `quota`; its process id."""
    found, api = program(), plane.api()
    definitions = sorted((crds.module_folder("kueue", MODULE) / "config/components/crd/bases").glob("*.yaml"))
    crds.serve(api, [_stored(path) for path in definitions])
    api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}}, "bench")
    for name in ("tls.crt", "tls.key"):
        source = plane.layout.certificate.with_suffix(name[3:])
        shutil.copy(source, folder / name)
    health = free_port()
    config = folder / "kueue.json"
    config.write_text(json.dumps(_config(folder, health)))
    files = [folder / "tls.crt", folder / "tls.key", found, config]
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", _WITH_CERTIFICATES, "kueue"]
    with (folder / "kueue.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, *map(str, files)],
            env={**os.environ, "KUBECONFIG": str(plane.kubeconfig)},
            stdout=log,
            stderr=log,
        )
    try:
        _until_ready(process, f"http://127.0.0.1:{health}/readyz", folder / "kueue.log")
        _queues(api, quota, namespaces)
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def _stored(path: Path) -> dict[str, Any]:
    """A definition with the version alone that is stored: no other one, and so no conversion."""
    definition: dict[str, Any] = yaml.safe_load(path.read_text())
    versions = definition["spec"]["versions"]
    definition["spec"]["versions"] = [version for version in versions if version["storage"]]
    return definition


def _config(certificates: Path, health: int) -> dict[str, Any]:
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"port": free_port(), "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "clientConnection": {"qps": 1000, "burst": 2000},
        "integrations": {"frameworks": ["batch/job"]},
        "featureGates": {"VisibilityOnDemand": False},
    }


def _queues(api: KubeApi, quota: dict[str, int], namespaces: list[str]) -> None:
    resources = [{"name": name, "nominalQuota": str(count)} for name, count in quota.items()]
    group = {"coveredResources": list(quota), "flavors": [{"name": "all", "resources": resources}]}
    api.apply(
        {"apiVersion": _API, "kind": "ResourceFlavor", "metadata": {"name": "all"}, "spec": {}}, "bench"
    )
    api.apply(
        {
            "apiVersion": _API,
            "kind": "ClusterQueue",
            "metadata": {"name": QUEUE},
            "spec": {"namespaceSelector": {}, "resourceGroups": [group]},
        },
        "bench",
    )
    for namespace in namespaces:
        api.apply(
            {
                "apiVersion": _API,
                "kind": "LocalQueue",
                "metadata": {"name": QUEUE, "namespace": namespace},
                "spec": {"clusterQueue": QUEUE},
            },
            "bench",
        )


def _until_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    end = time.monotonic() + _PATIENCE_S
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise Failed(f"Kueue does not run: {log.read_text()[-800:]}")
