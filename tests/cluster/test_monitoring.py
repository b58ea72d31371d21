"""A real Prometheus beside the local control plane: figures follow the pods of the cluster, and what fires is
passed on by a real Alertmanager."""

from __future__ import annotations

import http.server
import json
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from gpupool.environment.plan.resolve import read_plan
from gpupool.local.control_plane import ControlPlane
from gpupool.local.monitoring.prometheus import LocalPrometheus
from gpupool.local.ports import free_port
from tests.cluster.conftest import pod
from tests.cluster.kube import Kube
from tests.environment_files import environment_data, write_environment
from tests.generators.monitoring.routing import program, routing
from tests.prometheus import wait

ALERTS = Path(__file__).parents[2] / "docs" / "alerts.md"

ENVIRONMENT = environment_data(
    "local",
    name="watched",
    pools=[
        {
            "name": "desk",
            "gpu": "t4",
            "sharing": {"mode": "time-slicing", "replicas": 4},
            "nodes": {"instanceTypes": ["g4dn.xlarge"], "max": 2},
        }
    ],
    monitoring={"alerts": {"runbooks": "https://wiki.example.com/alerts"}},
    queue={"idle": {"prometheus": "http://127.0.0.1:9090", "below": 0.05, "for": "20s"}},
)
PATIENCE_S = 150.0


class Receiver:
    """What an Alertmanager with the documentation's routing sends, with the receiver that it is for."""

    def __init__(self, folder: Path) -> None:
        receiver = self
        self.notices: list[tuple[str, dict[str, Any]]] = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                receiver.notices += [(self.path.strip("/"), alert) for alert in body["alerts"]]
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        config = routing()
        for row in config["receivers"]:
            address = f"http://127.0.0.1:{self._server.server_address[1]}/{row['name']}"
            row["webhook_configs"] = [{"url": address}]
        config["route"] |= {"group_wait": "1s", "group_interval": "1s"}  # for who looks on
        (folder / "alertmanager.yaml").write_text(yaml.safe_dump(config))
        self.address = f"127.0.0.1:{free_port()}"
        with (folder / "alertmanager.log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    program("prometheus-alertmanager"),
                    f"--config.file={folder}/alertmanager.yaml",
                    f"--storage.path={folder}/alerts",
                    f"--web.listen-address={self.address}",
                    "--cluster.listen-address=",
                ],
                stdout=log,
                stderr=log,
            )

    def until(self, name: str, status: str) -> tuple[str, dict[str, Any]]:
        """The name of the receiver, and the alert: firing or resolved."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            for receiver, alert in self.notices:
                if (alert["labels"]["alertname"], alert["status"]) == (name, status):
                    return receiver, alert
            time.sleep(0.5)
        raise AssertionError(f"{name} is not {status}; received: {self.notices}")

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(30)
        self._server.shutdown()
        self._server.server_close()


def test_figures_follow_the_pods(
    control_plane: ControlPlane,
    make_node: Callable[..., str],
    cluster: Kube,
    tmp_path: Path,
) -> None:
    """Two pods on a GPU that do nothing: who is there is the cluster's; the receiver learns that the GPU is
    idle, and that it no longer is when they are gone."""
    file = write_environment(tmp_path / "environments", ENVIRONMENT)
    node = make_node(
        "watched-0",
        labels={"gpupool.dev/pool": "desk"},
        annotations={"simulated.gpupool.dev/gpu": "t4"},
    )
    for name in ("idle-0", "idle-1"):
        body = pod(name, {"nvidia.com/gpu": 1})
        body["spec"]["nodeName"] = node
        body["spec"]["containers"][0]["env"] = [{"name": "GPUPOOL_GPU_USE", "value": "0.01"}]
        cluster.api.create(body)
    prometheus, receiver = LocalPrometheus(tmp_path / "monitoring"), Receiver(tmp_path)
    port = free_port()

    def until(expression: str) -> dict[str, Any]:
        return wait(f"http://127.0.0.1:{port}", expression, PATIENCE_S)[0]

    try:
        plan = read_plan(str(file))
        prometheus.start(
            plan, file, control_plane.kubeconfig, "127.0.0.1:1", port, lambda _: None, receiver.address
        )
        pods = until(f'gpupool:gpu_pods:count{{node="{node}"}} == 2')
        assert pods["metric"]["pool"] == "desk"
        alert = until('ALERTS{alertname="GpupoolGpuIdle", alertstate="firing"}')
        assert alert["metric"]["node"] == node
        name, notice = receiver.until("GpupoolGpuIdle", "firing")
        assert name == "platform"
        assert notice["labels"].items() >= {"severity": "info", "node": node, "pool": "desk"}.items()
        assert f"of {node} is idle but held by a pod" in notice["annotations"]["summary"]
        page, _, heading = notice["annotations"]["runbook_url"].partition("#")
        assert page == "https://wiki.example.com/alerts"
        assert f"\n## {heading}\n" in ALERTS.read_text().lower()
        for name in ("idle-0", "idle-1"):
            cluster.api.delete("v1", "Pod", name, "default")
        receiver.until("GpupoolGpuIdle", "resolved")
    finally:
        prometheus.stop()
        receiver.stop()
    assert not prometheus.stop()
