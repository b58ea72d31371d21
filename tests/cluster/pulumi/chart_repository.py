"""A chart repository on loopback with the GPU Operator's real chart, packed from its pinned Go module."""

from __future__ import annotations

import functools
import http.server
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HOOK = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: before-{verb}
  annotations: {{helm.sh/hook: pre-{verb}, helm.sh/hook-delete-policy: "before-hook-creation,hook-succeeded"}}
spec:
  backoffLimit: 0
  {limit}
  template:
    metadata:
      annotations: {{gpupool.dev/simulated-duration: {lasts}}}
    spec:
      restartPolicy: Never
      tolerations: [{{operator: Exists}}]
      containers: [{{name: work, image: "registry.example/work:1"}}]
"""
"""A Job that Helm waits for. One whose limit is shorter than its work fails."""


class ChartRepository:
    """A folder that is served as a chart repository; `add` packs one more version."""

    def __init__(self, helm: Path, chart: Path, folder: Path, url: str) -> None:
        self._helm, self._chart, self._folder = helm, chart, folder
        self.url = url

    def add(self, version: str, **hooks: str) -> None:
        """Pack the chart under this version. `hooks` maps a verb to how long its Job works (`install="5s"`);
        with `!` behind, the Job fails."""
        copy = self._folder.parent / f"chart-{version}"
        shutil.copytree(self._chart, copy)
        for verb, lasts in hooks.items():
            limit = "activeDeadlineSeconds: 1" if lasts.endswith("!") else ""
            text = HOOK.format(verb=verb, lasts=lasts.removesuffix("!"), limit=limit)
            (copy / "templates" / f"before-{verb}.yaml").write_text(text)
        self._run(
            "package", str(copy), "--version", version, "--app-version", version, "-d", str(self._folder)
        )
        self._run("repo", "index", str(self._folder), "--url", self.url)

    def _run(self, *arguments: str) -> None:
        here = {
            f"HELM_{name}_HOME": str(self._folder.parent / "helm") for name in ("CACHE", "CONFIG", "DATA")
        }
        command = [str(self._helm), *arguments]
        subprocess.run(command, env={**os.environ, **here}, check=True, capture_output=True, text=True)


@contextmanager
def chart_repository(helm: Path, chart: Path, folder: Path) -> Iterator[ChartRepository]:
    """Served until the end of the block."""
    files = folder / "charts"
    files.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(files)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield ChartRepository(helm, chart, files, f"http://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        server.server_close()
