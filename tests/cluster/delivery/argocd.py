"""Argo CD's own programs against the control plane: the application controller and the repository server.

Built from the Go module of Argo CD 3.1.9. That of 3.4.13 can't be built: it leaves out a folder that it
needs (gitops-engine). Settings are the defaults, but for TLS between the programs and signatures of commits,
which are off.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from gpupool.local.ports import free_ports
from tests.required_programs import absent, require

Object = dict[str, Any]
NAMESPACE = "argocd"
_PART = {"app.kubernetes.io/part-of": "argocd"}
_SETTINGS: tuple[Object, ...] = tuple(
    {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": _PART},
    }
    for kind, name in (
        ("ConfigMap", "argocd-cm"),
        ("ConfigMap", "argocd-cmd-params-cm"),
        ("ConfigMap", "argocd-rbac-cm"),
    )
)
_SECRET: Object = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "argocd-secret", "namespace": NAMESPACE, "labels": _PART},
    "stringData": {"server.secretkey": "of this test alone"},
}
_DEFAULT_PROJECT: Object = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "AppProject",
    "metadata": {"name": "default", "namespace": NAMESPACE},
    "spec": {"sourceRepos": [], "destinations": []},
}
"""There is one in every installation; here it permits nothing, so nothing can rest on it."""


@contextmanager
def running(cluster: Any, kubeconfig: Path, folder: Path, **variables: str) -> Iterator[None]:
    """Argo CD runs while the block does; its kinds and its namespace are there. `variables` are more of its
    processes' environment."""
    program = str(require("argocd")["argocd"])
    # In which Argo CD caches.
    redis = shutil.which("redis-server") or absent("no redis-server; install it (Debian: redis-server)")
    for body in (*_SETTINGS, _SECRET, _DEFAULT_PROJECT):
        cluster.apply(body)
    folder.mkdir()
    ports = free_ports(dict.fromkeys(("redis", "server", "metrics", "controller"), 0))
    address = f"127.0.0.1:{ports['redis']}"
    with ExitStack() as stack:
        stack.enter_context(_process([redis, "--port", str(ports["redis"]), "--save", ""], folder, "redis"))
        common = ["--redis", address, "--loglevel", "info"]
        server = ["--port", str(ports["server"]), "--metrics-port", str(ports["metrics"]), "--disable-tls"]
        controller = ["--kubeconfig", str(kubeconfig), "--namespace", NAMESPACE]
        controller += ["--repo-server", f"127.0.0.1:{ports['server']}", "--repo-server-plaintext"]
        controller += ["--metrics-port", str(ports["controller"])]
        for name, options in (("argocd-repo-server", server), ("argocd-application-controller", controller)):
            stack.enter_context(
                _process([program, *common, *options], folder, name, KUBECONFIG=str(kubeconfig), **variables)
            )
        yield


@contextmanager
def _process(command: list[str], folder: Path, name: str, **more: str) -> Iterator[None]:
    helm = require("helm")["helm"].parent
    variables = {
        **os.environ,
        "PATH": f"{helm}{os.pathsep}{os.environ['PATH']}",
        "ARGOCD_BINARY_NAME": name,
        "ARGOCD_FAKE_IN_CLUSTER": "true",
        "ARGOCD_GPG_ENABLED": "false",
        "ARGOCD_TLS_DATA_PATH": str(folder / "tls"),
        "ARGOCD_SSH_DATA_PATH": str(folder / "ssh"),
        "ARGOCD_PLUGINSOCKFILEPATH": str(folder / "plugins"),
        "TMPDIR": str(folder),
        **more,
    }
    for part in ("tls", "ssh", "plugins"):
        (folder / part).mkdir(exist_ok=True)
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(command, env=variables, stdout=log, stderr=subprocess.STDOUT, cwd=folder)
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)
