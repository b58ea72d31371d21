"""Reads the pool's nodes and carries out one step: cordon, evict, relabel, uncordon. Decides nothing.

Labels of existing nodes are written as `up` writes them, under its field manager and with the node's own
taints, so that `up` finds them as it expects and can remove them later. Nodes that Karpenter has made
have their labels from it, and get a plain patch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from gpupool.environment.plan.model import POOL_LABEL, Pool
from gpupool.generators.manifest import Manifest
from gpupool.generators.static_nodes import node_patch
from gpupool.live.cluster.kube_api import MERGE, ApiError, KubeApi
from gpupool.live.cluster.live_objects import MIG_LABEL, NO_LAYOUT, STEERING
from gpupool.live.objects.owner import FIELD_MANAGER
from gpupool.live.objects.repartition_mark import MARK
from gpupool.live.objects.resource_values import properties
from gpupool.live.objects.static_nodes import fit
from gpupool.live.repartition.journal import MANAGER
from gpupool.live.repartition.shapes import LiveNode, Mark, Shape, mark_of, read_node
from gpupool.live.repartition.steps import Act, NodeAction


class PoolNodes:
    """The nodes of one pool in one cluster."""

    def __init__(self, api: KubeApi, pool: Pool) -> None:
        self._api, self._pool = api, pool
        self._bodies: dict[str, dict[str, Any]] = {}
        self.blocked: dict[str, str] = {}
        """Job -> why the API server does not evict it yet."""

    def read_nodes(self, all_jobs: bool = False) -> list[LiveNode]:
        """Every node of the pool. The jobs of nodes that are not being changed are only read with
        `all_jobs`."""
        bodies = self._api.list("v1", "Node", selector=f"{POOL_LABEL}={self._pool.name}")
        self._bodies = {body["metadata"]["name"]: body for body in bodies}
        now = datetime.now(UTC)
        return [
            read_node(body, self._pods(name) if all_jobs or mark_of(body) else (), now)
            for name, body in self._bodies.items()
        ]

    def _pods(self, node: str) -> list[dict[str, Any]]:
        query = {"fieldSelector": f"spec.nodeName={node}"}
        items: list[dict[str, Any]] = self._api.request("GET", "/api/v1/pods", query)[1]["items"]
        return items

    def do(self, action: NodeAction) -> None:
        """Carry out one step. A node or job that no longer exists is fine. Raises ApiError."""
        try:
            if action.act is Act.begin:
                self._begin(action.node)
            elif action.act is Act.end:
                self._end(action.node)
            elif action.act is Act.go_back:
                self._patch(action.node, {"metadata": {"annotations": {MARK: self._mark(action.node, True)}}})
            elif action.act is Act.relabel and action.shape is not None:
                self.relabel(action.node, action.shape)
            elif action.act is Act.evict:
                self._evict(action)
        except ApiError as error:
            if error.status != 404:
                raise

    def _begin(self, name: str) -> None:
        mark = self._mark(name, False)
        self._patch(name, {"metadata": {"annotations": {MARK: mark}}, "spec": {"unschedulable": True}})

    def _mark(self, name: str, back: bool) -> str:
        """The mark of the node: as it is but for `back`, or a new one that notes a cordon of others."""
        body = self._bodies[name]
        mark = mark_of(body) or Mark(bool(body["spec"].get("unschedulable")))
        return replace(mark, back=back or mark.back).as_text()

    def _end(self, name: str) -> None:
        mark = mark_of(self._bodies[name])
        spec = {} if mark and mark.cordoned_before else {"spec": {"unschedulable": None}}
        self._patch(name, {"metadata": {"annotations": {MARK: None}}, **spec})

    def relabel(self, name: str, shape: Shape) -> None:
        """Give the node the steering labels of `shape`."""
        labels = shape.labels()
        if shape.mig is None and self._bodies[name]["metadata"]["labels"].get(MIG_LABEL) == NO_LAYOUT:
            del labels[MIG_LABEL]  # the operator's own value for the same
        if self._pool.capacities:
            self._patch(name, {"metadata": {"labels": labels}})
            return
        body = fit(self._bodies[name], node_patch(self._pool, name).body)
        kept = {key: value for key, value in body["metadata"]["labels"].items() if key not in STEERING}
        steering = {key: value for key, value in labels.items() if value is not None}
        metadata = {**body["metadata"], "labels": {**kept, **steering}}
        sent = properties(Manifest({**body, "metadata": metadata}, patch=True))
        _, live = self._api.apply(sent, FIELD_MANAGER, force=True)
        left = [key for key, value in labels.items() if value is None and key in live["metadata"]["labels"]]
        if left:  # somebody else owns it as well, so giving it up does not take it away
            self._patch(name, {"metadata": {"labels": dict.fromkeys(left)}})

    def _patch(self, name: str, body: Mapping[str, Any]) -> None:
        path = self._api.require("v1", "Node").path(None, name)
        self._api.request("PATCH", path, {"fieldManager": MANAGER}, body, MERGE)

    def _evict(self, action: NodeAction) -> None:
        """Ask the API server to evict a pod: with the pod's own grace, and within disruption budgets."""
        job = action.job
        if job is None:
            return
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": job.name, "namespace": job.namespace},
        }
        path = f"/api/v1/namespaces/{quote(job.namespace)}/pods/{quote(job.name)}/eviction"
        try:
            self._api.request("POST", path, None, body)
            self.blocked.pop(str(job), None)
        except ApiError as error:
            if error.status != 429:
                raise
            self.blocked[str(job)] = str(error)
