"""A real Prometheus that scrapes replayed exporter pages of an environment's pools, with its rules."""

from __future__ import annotations

import http.server
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gpupool.environment.plan.model import Plan, Pool
from gpupool.generators.monitoring import exporter, rules
from gpupool.local.monitoring.page import LATEST, Card, MigInstance, PodUse, Writer, page
from tests.prometheus import Prometheus


class Node(NamedTuple):
    """A node of a pool, and how its exporter writes."""

    name: str
    pool: Pool
    writer: Writer = LATEST


def cards(pool: Pool, load: float = 0.4, node: str | None = None) -> list[Card]:
    """Two GPUs of a node of the pool, in use by pods as its sharing lets them be. `load`: how much."""
    node = node or f"node-{pool.name}"
    pods = tuple(PodUse("team-a", f"{pool.name}-{number}", load / 2) for number in range(2))
    if pool.sharing.layout and pool.gpu.mig:
        names = [name for name, count in pool.sharing.layout.items() for _ in range(count)]
        parts = tuple(
            MigInstance(name, number, 10000, (PodUse("team-a", f"{pool.name}-{number}", load),))
            for number, name in enumerate(names)
        )
        return [Card(node, index, pool.gpu, instances=parts) for index in range(2)]
    held = pods if pool.sharing.plugin_key is not None else pods[:1]
    return [
        Card(node, 0, pool.gpu, pods=held),
        Card(node, 1, pool.gpu, pods=(PodUse("team-b", "idle", 0.0),)),
    ]


class Scraped(Prometheus):
    """What it scrapes is a page for each node, one of each pool if not said otherwise, and `others` by the
    job's name; it has the rules of the plan."""

    def __init__(
        self, folder: Path, plan: Plan, others: Mapping[str, str] = {}, nodes: Sequence[Node] = ()
    ) -> None:
        nodes = nodes or [Node(f"node-{pool.name}", pool) for pool in plan.pools]
        self._pages = _Pages(plan, others, nodes)
        groups = [{**group, "interval": "1s"} for group in rules.groups(plan)]
        super().__init__(folder, self._jobs(nodes, others), groups)

    def _jobs(self, nodes: Sequence[Node], others: Mapping[str, str]) -> list[dict[str, Any]]:
        target = f"127.0.0.1:{self._pages.port}"
        # As the ServiceMonitor has it: the exporter's own pod, so that those that use a GPU are exported_pod.
        own = {"namespace": "gpu-operator", "pod": "exporter"}
        targets = [
            {
                "targets": [target],
                "labels": {
                    **own,
                    "node": node.name,
                    "pool": node.pool.name,
                    "__metrics_path__": f"/{node.name}",
                },
            }
            for node in nodes
        ]
        return [
            {"job_name": rules.EXPORTER_JOB, "static_configs": targets},
            *(
                {"job_name": name, "metrics_path": f"/{name}", "static_configs": [{"targets": [target]}]}
                for name in others
            ),
        ]

    def stop(self) -> None:
        super().stop()
        self._pages.stop()


class _Pages:
    def __init__(self, plan: Plan, others: Mapping[str, str], nodes: Sequence[Node]) -> None:
        fields = list(exporter.read_fields(plan))
        by_name = {node.name: node for node in nodes}

        def text_of(name: str) -> str:
            if name in others:
                return others[name]
            node = by_name[name]
            return page(cards(node.pool, node=name), fields, time.time(), node.writer)

        class Page(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                text = text_of(self.path.strip("/"))
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
