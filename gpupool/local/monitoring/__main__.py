"""`python -m gpupool.local.monitoring`: the exporter's pages of all nodes of the local cluster, over HTTP.

`/targets` is what Prometheus discovers (http_sd_configs): a target for each node of a pool, with the labels
that the ServiceMonitor gives; `/nodes/NAME` is that node's page. Listens on loopback alone.
"""

from __future__ import annotations

import argparse
import http.server
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

from gpupool.environment.plan.model import POOL_LABEL, Plan
from gpupool.environment.plan.resolve import read_plan
from gpupool.findings import GpupoolError
from gpupool.generators.monitoring import exporter
from gpupool.live.cluster.kube_api import KubeApi
from gpupool.local.monitoring.cards import cards_of
from gpupool.local.monitoring.page import Card, page

_FRESH_S = 2.0
"""How old what is known of the cluster may be: Prometheus asks for all nodes at once."""


class ClusterGpus:
    """The cluster's GPUs, read again when they are asked for."""

    def __init__(self, api: KubeApi, plan: Plan) -> None:
        self.plan = plan
        self._api = api
        self._lock = threading.Lock()
        self._read = float("-inf")
        self._nodes: dict[str, tuple[str, tuple[Card, ...]]] = {}

    def nodes(self) -> dict[str, tuple[str, tuple[Card, ...]]]:
        """Node -> its pool and its GPUs. Raises GpupoolError."""
        with self._lock:
            if time.monotonic() - self._read > _FRESH_S:
                pods = self._api.list("v1", "Pod")
                self._nodes = {
                    node["metadata"]["name"]: (node["metadata"]["labels"][POOL_LABEL], cards)
                    for node in self._api.list("v1", "Node", selector=POOL_LABEL)
                    if (cards := cards_of(node, pods, self.plan))
                }
                self._read = time.monotonic()
            return self._nodes


def server(cluster: ClusterGpus, port: int) -> http.server.ThreadingHTTPServer:
    """The HTTP server, not yet serving; port 0 for one that is free."""
    fields = list(exporter.read_fields(cluster.plan))

    class Pages(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                nodes = cluster.nodes()
            except GpupoolError as error:
                self.send_error(503, str(error).splitlines()[0])
                return
            kind, _, name = self.path.strip("/").partition("/")
            if kind == "targets":
                address = self.headers.get("Host", "")
                self._answer("application/json", json.dumps(_targets(nodes, address, cluster.plan)))
            elif kind == "nodes" and name in nodes:
                self._answer("text/plain; version=0.0.4", page(nodes[name][1], fields, time.time()))
            else:
                self.send_error(404)

        def _answer(self, kind: str, text: str) -> None:
            body = text.encode()
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Prometheus asks every few seconds."""

    return http.server.ThreadingHTTPServer(("127.0.0.1", port), Pages)


def _targets(
    nodes: dict[str, tuple[str, tuple[Card, ...]]], address: str, plan: Plan
) -> list[dict[str, Any]]:
    own = {"namespace": plan.gpu_operator.namespace}
    return [
        {
            "targets": [address],
            "labels": {
                **own,
                "node": name,
                "pool": pool,
                "pod": f"nvidia-dcgm-exporter-{name}",
                "instance": name,
                "__metrics_path__": f"/nodes/{name}",
            },
        }
        for name, (pool, _) in sorted(nodes.items())
    ]


def main() -> int:
    """Serves until it is ended; the exit code."""
    parser = argparse.ArgumentParser(prog="gpupool.local.monitoring")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--environment", required=True)
    parser.add_argument("--port", type=int, required=True)
    given = parser.parse_args()
    try:
        cluster = ClusterGpus(KubeApi.connect(given.kubeconfig), read_plan(given.environment))
    except GpupoolError as error:
        print(error, file=sys.stderr)
        return 1
    server(cluster, given.port).serve_forever()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
