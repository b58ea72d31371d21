"""A real Prometheus for tests, and a page of metrics that it scrapes, in DCGM exporter's format."""

from __future__ import annotations

import http.server
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpupool.local.ports import free_port
from tests.programs import absent

INTERVAL_S = 1.0
"""Also the time that a scrape may take: one that is cut off leaves a gap in all figures."""
_PATIENCE_S = 30.0
_CONFIG = """
global: {{scrape_interval: {interval}ms, scrape_timeout: {interval}ms}}
scrape_configs:
- job_name: honoured
  honor_labels: true
  metrics_path: /honoured
  static_configs: [{{targets: ['127.0.0.1:{page}'], labels: {{namespace: gpu-operator, pod: exporter-a}}}}]
- job_name: exported
  metrics_path: /exported
  static_configs: [{{targets: ['127.0.0.1:{page}'], labels: {{namespace: gpu-operator, pod: exporter-b}}}}]
"""


@dataclass
class Gpu:
    """A line or two of the exporter: a GPU or MIG instance as one pod has it."""

    uuid: str
    pod: str
    namespace: str = "vision"
    util: int | None = 0
    """DCGM_FI_DEV_GPU_UTIL; None: it is not exported."""
    active: float | None = 0.0
    """DCGM_FI_PROF_GR_ENGINE_ACTIVE."""
    instance: str = ""
    vgpu: str = ""
    honoured: bool = True
    """Whether Prometheus leaves its labels alone."""


class Exporter:
    """Serves what `gpus` says at present."""

    def __init__(self, gpus: Sequence[Gpu]) -> None:
        self.gpus = list(gpus)
        self.asked = threading.Event()
        """Somebody has scraped it: Prometheus finds its targets some seconds after its start."""
        exporter = self

        class Page(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                exporter.asked.set()
                body = exporter.text(self.path == "/honoured").encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def text(self, honoured: bool) -> str:
        gpus = [gpu for gpu in self.gpus if gpu.honoured == honoured]
        return "".join(
            f"# HELP {metric} as DCGM says\n# TYPE {metric} gauge\n"
            + "".join(
                f"{metric}{{{_labels(gpu)}}} {value}\n"
                for gpu in gpus
                if (value := getattr(gpu, field)) is not None
            )
            for metric, field in (
                ("DCGM_FI_DEV_GPU_UTIL", "util"),
                ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "active"),
            )
        )

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _labels(gpu: Gpu) -> str:
    labels = {
        "gpu": "0",
        "UUID": gpu.uuid,
        "pci_bus_id": "00000000:00:1E.0",
        "device": "nvidia0",
        "modelName": "Tesla T4",
        "Hostname": "node-1",
        **({"GPU_I_PROFILE": "1g.10gb", "GPU_I_ID": gpu.instance} if gpu.instance else {}),
        "container": "main" if gpu.pod else "",
        "namespace": gpu.namespace if gpu.pod else "",
        "pod": gpu.pod,
        **({"vgpu": gpu.vgpu} if gpu.vgpu else {}),
    }
    return ",".join(f'{name}="{value}"' for name, value in labels.items())


class Prometheus:
    """Scrapes an exporter's page on a free port."""

    def __init__(self, folder: Path, exporter: Exporter) -> None:
        program = shutil.which("prometheus")
        if program is None:
            absent("no prometheus; Debian: apt-get install prometheus")
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        config = folder / "prometheus.yml"
        config.write_text(_CONFIG.format(interval=round(INTERVAL_S * 1000), page=exporter.port))
        command = [program, f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"]
        with (folder / "prometheus.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*command, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log
            )
        end = time.monotonic() + _PATIENCE_S
        while time.monotonic() < end:
            try:
                with urllib.request.urlopen(f"{self.url}/-/ready", timeout=1):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        self.stop()
        raise AssertionError((folder / "prometheus.log").read_text())

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
