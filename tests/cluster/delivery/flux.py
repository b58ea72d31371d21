"""Flux's own kustomize-controller against the control plane.

The source-controller does not run: what it would say of a GitRepository, and the archive that it would serve,
come from here. How long it takes to notice a commit is therefore not measured.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from gpupool.live.cluster.kube_api import MERGE
from gpupool.local.ports import free_port
from tests.required_programs import require

NAMESPACE = "flux-system"
_SOURCES = f"/apis/source.toolkit.fluxcd.io/v1/namespaces/{NAMESPACE}/gitrepositories"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Silent."""


class Source:
    """What the source-controller does for one GitRepository."""

    def __init__(self, cluster: Any, folder: Path) -> None:
        self._cluster, self._folder = cluster, folder
        self._port = free_port()

    @contextmanager
    def served(self) -> Iterator[None]:
        handler = partial(_Quiet, directory=str(self._folder))
        server = ThreadingHTTPServer(("127.0.0.1", self._port), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()

    def fetched(self, name: str, checkout: Path, commit: str) -> None:
        """The repository is at this commit."""
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w:gz") as tar:
            for path in sorted(checkout.rglob("*")):
                if ".git" not in path.parts and path.is_file():
                    tar.add(path, arcname=str(path.relative_to(checkout)))
        file = f"{commit}.tar.gz"
        (self._folder / file).write_bytes(archive.getvalue())
        artifact = {
            "digest": f"sha256:{hashlib.sha256(archive.getvalue()).hexdigest()}",
            "lastUpdateTime": "2026-01-01T00:00:00Z",
            "path": file,
            "revision": f"main@sha1:{commit}",
            "url": f"http://127.0.0.1:{self._port}/{file}",
        }
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "Succeeded",
            "message": "stored artifact",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        status = {"artifact": artifact, "conditions": [ready], "observedGeneration": 1}
        self._cluster.api.request(
            "PATCH", f"{_SOURCES}/{name}/status", body={"status": status}, content_type=MERGE
        )


@contextmanager
def running(kubeconfig: Path, folder: Path, *options: str) -> Iterator[None]:
    """The controller runs while the block does."""
    program = str(require("kustomize-controller")["kustomize-controller"])
    command = [program, "--metrics-addr", "127.0.0.1:0"]
    command += ["--health-addr", "127.0.0.1:0", *options]
    with (folder / "kustomize-controller.log").open("ab") as log:
        process = subprocess.Popen(
            command,
            env={
                "PATH": "/usr/bin:/bin",
                "KUBECONFIG": str(kubeconfig),
                "RUNTIME_NAMESPACE": NAMESPACE,
                "HOME": str(folder),
                "TMPDIR": str(folder),
            },
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)
