"""A page of metrics in DCGM exporter's format, that a Prometheus scrapes (tests/prometheus.py)."""

from __future__ import annotations

import http.server
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


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
        self._scrapes = Counter[str]()
        exporter = self

        class Page(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                exporter.asked.set()
                exporter._scrapes[self.path] += 1
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

    def wait_until_stored(self) -> None:
        """Until Prometheus has what `gpus` says now: the next scrape but one of a page begins after that."""
        before = self._scrapes.copy()
        until = time.monotonic() + 60
        while any(count < before[page] + 2 for page, count in self._scrapes.items()):
            assert time.monotonic() < until, f"Prometheus has not scraped twice since {before}"
            time.sleep(0.05)

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

    def jobs(self) -> list[dict[str, Any]]:
        """What a Prometheus scrapes there: once with its labels left alone, once not."""
        return [
            {
                "job_name": name,
                "honor_labels": name == "honoured",
                "metrics_path": f"/{name}",
                "static_configs": [
                    {
                        "targets": [f"127.0.0.1:{self.port}"],
                        "labels": {"namespace": "gpu-operator", "pod": f"exporter-{name}"},
                    }
                ],
            }
            for name in ("honoured", "exported")
        ]

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
