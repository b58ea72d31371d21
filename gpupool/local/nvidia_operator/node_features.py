"""The labels of Node Feature Discovery on nodes with GPUs, by which the controller finds them."""

from __future__ import annotations

import asyncio
import logging

from gpupool.live.cluster.async_api import AsyncKubeApi
from gpupool.live.cluster.kube_api import MERGE, ApiError, UnreachableError
from gpupool.live.cluster.work_queue import WorkQueue
from gpupool.local.operator import hardware
from gpupool.local.watch import Object, follow

_LOG = logging.getLogger(__name__)
_NODES = "/api/v1/nodes"
_WORKERS = 16
_PREFIX = "feature.node.kubernetes.io"
SYSTEM = {"ID": "ubuntu", "VERSION_ID": "24.04"}
"""What every node runs, as /etc/os-release has it."""
LABELS = {
    f"{_PREFIX}/pci-10de.present": "true",
    f"{_PREFIX}/kernel-version.full": "6.8.0-1029-aws",
    **{f"{_PREFIX}/system-os_release.{key}": value for key, value in SYSTEM.items()},
}
"""With the settings of NFD that the GPU Operator's chart has (`deviceLabelFields: [vendor]`)."""


class NodeFeatures:
    """Writes them on every node that has GPUs by the simulation's own facts, and on no other."""

    def __init__(self, api: AsyncKubeApi) -> None:
        self._api = api
        self._nodes: dict[str, Object] = {}
        self._work = WorkQueue[str](self._label, self._failed, _WORKERS)
        self.listed = asyncio.Event()
        """Set once every node has been seen."""

    async def run(self) -> None:
        """Follow the nodes for ever."""
        await follow(self._api, _NODES, self._nodes, self._on_node, self.listed)

    def _on_node(self, event: str, node: Object, _before: Object | None) -> None:
        if event != "DELETED":
            self._work.add(node["metadata"]["name"])

    async def _label(self, name: str) -> None:
        node = self._nodes.get(name)
        if node is None or not _has_gpus(node):
            return
        have = node["metadata"].get("labels") or {}
        missing = {key: value for key, value in LABELS.items() if have.get(key) != value}
        if missing:
            await self._api.request(
                "PATCH", f"{_NODES}/{name}", None, {"metadata": {"labels": missing}}, MERGE
            )

    def _failed(self, name: str, error: Exception) -> None:
        if isinstance(error, ApiError) and error.status == 404:
            return  # the node is gone
        if not isinstance(error, ApiError | UnreachableError):
            raise error
        _LOG.warning("node %s: %s; trying again", name, error)
        asyncio.get_running_loop().call_later(1.0, self._work.add, name)


def _has_gpus(node: Object) -> bool:
    try:
        return hardware.of_node(node) is not None
    except hardware.HardwareError:
        return False  # the simulated operands say so
