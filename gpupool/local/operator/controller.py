"""Watch nodes, ConfigMaps and the ClusterPolicy, and carry out what the operands of each node decide.

All decisions are in `operands`; this module knows when to ask them and how to write the outcome: the
node's status, labels and annotations, and an Event for every new trouble.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpupool.live.cluster.async_api import AsyncKubeApi
from gpupool.live.cluster.kube_api import MERGE, ApiError, UnreachableError
from gpupool.live.cluster.work_queue import WorkQueue
from gpupool.local.operator import hardware, names, node_view, operands, policy, state
from gpupool.local.operator.advertise import PluginFailure
from gpupool.local.operator.discovery import DiscoveryFailure
from gpupool.local.operator.operands import OperandView
from gpupool.local.operator.policy import Policy
from gpupool.local.operator.state import OperandMemory
from gpupool.local.watch import Object, follow

_LOG = logging.getLogger(__name__)
_WORKERS = 32
_NODES = "/api/v1/nodes"
_POLICIES = "/apis/nvidia.com/v1/clusterpolicies"
_MIG_FAILED, _PLUGIN_FAILED = "MIGManagerFailed", "DevicePluginFailed"
"""Reasons of Events."""
_CONFIG_MAPS = "/api/v1/configmaps"


class Controller:
    """The operator for one cluster."""

    def __init__(self, api: AsyncKubeApi, alone: bool = True) -> None:
        self._api = api
        self._alone = alone
        """Whether no other controller says of the ClusterPolicy that it is ready."""
        self._nodes: dict[str, Object] = {}
        self._policies: dict[str, Object] = {}
        self._config_maps: dict[str, Object] = {}
        self._written: dict[str, Object] = {}
        """Nodes as our own last patch left them: the watch may still show an older one."""
        self._work = WorkQueue[str](self._reconcile, self._failed, _WORKERS)
        self._ready = False

    async def run(self, ready_file: Path) -> None:
        """Follow the cluster for ever; makes `ready_file` once everything has been listed."""
        events = [asyncio.Event() for _ in range(3)]
        api, setting = self._api, self._on_setting
        followers = [
            asyncio.create_task(follow(api, _POLICIES, self._policies, setting, events[0])),
            asyncio.create_task(follow(api, _CONFIG_MAPS, self._config_maps, setting, events[1], _place)),
            asyncio.create_task(follow(api, _NODES, self._nodes, self._on_node, events[2])),
        ]
        for event in events:
            await event.wait()
        self._ready = True
        self._on_setting()
        ready_file.touch()
        await asyncio.gather(*followers)

    def _on_node(self, event: str, node: Object, before: Object | None) -> None:
        name = node["metadata"]["name"]
        if event == "DELETED":
            self._written.pop(name, None)
        elif before is None or node_view.relevant(node) != node_view.relevant(before):
            self._enqueue(name)

    def _on_setting(self, *_: object) -> None:
        for name in self._nodes:
            self._enqueue(name)
        if self._ready and self._alone:
            self._work.start(self._report_policy())

    def _enqueue(self, name: str) -> None:
        if self._ready:
            self._work.add(name)

    def _failed(self, name: str, error: Exception) -> None:
        """Reconcile the node again in a second, where the API server is at fault."""
        if not isinstance(error, ApiError | UnreachableError):
            raise error
        _LOG.warning("node %s: %s; trying again", name, error)
        asyncio.get_running_loop().call_later(1.0, self._enqueue, name)

    def _policy(self) -> Policy | None:
        """The oldest ClusterPolicy; the operator ignores any other."""
        found = sorted(self._policies.values(), key=lambda thing: thing["metadata"]["creationTimestamp"])
        return policy.read(found[0]) if found else None

    def _mounted(self, settings: Policy) -> dict[str, dict[str, str]]:
        """The data of the ConfigMaps that an operand can mount, by name."""
        named = {name: self._config_maps.get(f"{settings.namespace}/{name}") for name in settings.config_maps}
        return {name: thing.get("data") or {} for name, thing in named.items() if thing is not None}

    def _current(self, name: str) -> Object | None:
        """The newest form of the node that has been seen."""
        node, written = self._nodes.get(name), self._written.get(name)
        if node is None or written is None or written["metadata"]["uid"] != node["metadata"]["uid"]:
            return node
        return max(node, written, key=lambda thing: int(thing["metadata"]["resourceVersion"]))

    async def _reconcile(self, name: str) -> None:
        """Apply to one node what its operands decide."""
        node = self._current(name)
        if node is None or node["metadata"].get("deletionTimestamp") or not node_view.is_ready(node):
            return
        try:
            gpus = hardware.of_node(node)
        except hardware.HardwareError as error:
            await self._write(node, state.read(node), {}, {}, {_PLUGIN_FAILED: str(error)}, {})
            return
        if gpus is None:
            return
        memory = state.read(node)
        settings = self._policy()
        if settings is None or not node_view.operands_run(node, settings, memory):
            # No pod of the operator runs there: nothing is advertised, and nothing reports why.
            forgotten = OperandMemory(layouts=memory.layouts, labels=memory.labels)
            own = _own_labels(node, gpus) if settings else {}
            await self._write(node, forgotten, {}, {}, {}, own)
            return
        await self._run_operands(node, gpus, settings, memory)

    async def _run_operands(
        self, node: Object, gpus: hardware.Hardware, settings: Policy, memory: OperandMemory
    ) -> None:
        annotations = node["metadata"].get("annotations") or {}
        view = OperandView(
            hardware=gpus,
            labels=node["metadata"].get("labels") or {},
            policy=settings,
            config_maps=self._mounted(settings),
            fail=annotations.get(names.FAIL_ANNOTATION, ""),
        )
        request = operands.mig_request(view, memory)
        if request is not None:
            await self._pending(node, request, view)
            await _delay(annotations)
            operands.apply_mig(view, memory, request, await self._gpu_pod(node))
        troubles = {_MIG_FAILED: memory.mig_error} if memory.mig_error else {}
        resources: dict[str, int] = {}
        labels: dict[str, str] | None = {}
        if settings.plugin_enabled:
            if operands.plugin_must_start(view, memory):
                await _delay(annotations)
            try:
                resources = operands.run_plugin(view, memory)
            except PluginFailure as error:
                troubles[_PLUGIN_FAILED] = str(error)
        if settings.discovery_enabled:
            try:
                labels = operands.run_discovery(view, memory)
            except DiscoveryFailure as error:
                labels = None
                troubles.setdefault(_PLUGIN_FAILED, str(error))
        current = self._current(node["metadata"]["name"]) or node
        await self._write(current, memory, resources, labels, troubles, _own_labels(current, gpus))

    async def _pending(self, node: Object, request: str, view: OperandView) -> None:
        metadata: dict[str, Any] = {"labels": {names.MIG_STATE_LABEL: "pending"}}
        if not view.labels.get(names.MIG_CONFIG_LABEL):
            metadata["labels"][names.MIG_CONFIG_LABEL] = request
            # Never over a label that somebody sets at the same moment: then the node is reconciled again.
            metadata["resourceVersion"] = node["metadata"]["resourceVersion"]
        await self._patch(node, "", {"metadata": metadata})

    async def _gpu_pod(self, node: Object) -> str | None:
        """A pod on the node that holds a GPU or a part of one."""
        name = node["metadata"]["name"]
        pods = await self._api.request("GET", "/api/v1/pods", {"fieldSelector": f"spec.nodeName={name}"})
        for pod in pods["items"]:
            if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
                continue
            for container in pod["spec"]["containers"]:
                asked = (container.get("resources") or {}).get("requests") or {}
                if any(node_view.PLUGIN_RESOURCE.fullmatch(key) for key in asked):
                    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        return None

    async def _write(
        self,
        node: Object,
        memory: OperandMemory,
        resources: Mapping[str, int],
        labels: Mapping[str, str] | None,
        troubles: Mapping[str, str],
        own: Mapping[str, str | None],
    ) -> None:
        """Write what differs: resources into the status, then labels and annotations. `troubles`: the reason
        of the Event -> what is wrong. `own`: labels of the operator itself.

        `labels` None keeps those that feature discovery wrote before.
        """
        trouble = " | ".join(troubles.values())
        status = node_view.status_patch(node, resources)
        if status:
            await self._patch(node, "/status", {"status": status})
        have = node["metadata"].get("labels") or {}
        notes = node["metadata"].get("annotations") or {}
        target: dict[str, str | None] = {}
        if labels is not None:
            target = {key: None for key in memory.labels if key not in labels}
            target |= labels
            memory.labels = sorted(labels)
        target |= own
        if memory.mig_state or names.MIG_STATE_LABEL in have:
            target[names.MIG_STATE_LABEL] = memory.mig_state or None
        text = memory.as_text() if memory != OperandMemory(layouts=memory.layouts) or memory.layouts else None
        annotations = {names.STATE_ANNOTATION: text, names.ERROR_ANNOTATION: trouble or None}
        changed_labels = {key: value for key, value in target.items() if have.get(key) != value}
        changed_notes = {key: value for key, value in annotations.items() if notes.get(key) != value}
        if changed_labels or changed_notes:
            body = {"metadata": {"labels": changed_labels, "annotations": changed_notes}}
            await self._patch(node, "", body)
        if trouble and notes.get(names.ERROR_ANNOTATION) != trouble:
            await self._event(node, next(iter(troubles)), trouble)

    async def _patch(self, node: Object, suffix: str, body: object) -> None:
        name = node["metadata"]["name"]
        try:
            path = f"{_NODES}/{name}{suffix}"
            self._written[name] = await self._api.request("PATCH", path, None, body, MERGE)
        except ApiError as error:
            if error.status != 404:  # the node is gone
                raise

    async def _event(self, node: Object, reason: str, message: str) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        body = {
            "metadata": {"generateName": f"{node['metadata']['name'][:40]}-", "namespace": "default"},
            "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": node["metadata"]["name"]},
            "type": "Warning",
            "reason": reason,
            "message": message[:1000],
            "source": {"component": "gpu-operator"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        _LOG.info("node %s: %s", node["metadata"]["name"], message)
        await self._api.request("POST", "/api/v1/namespaces/default/events", None, body)

    async def _report_policy(self) -> None:
        """The ClusterPolicy's own status: ready when the ConfigMaps that it names exist."""
        settings = self._policy()
        if settings is None:
            return
        value = "ready" if settings.config_maps <= self._mounted(settings).keys() else "notReady"
        thing = self._policies.get(settings.name, {})
        status = {"state": value, "namespace": settings.namespace}
        if not status.items() <= (thing.get("status") or {}).items():
            body = {"status": status}
            try:
                path = f"{_POLICIES}/{settings.name}/status"
                await self._api.request("PATCH", path, None, body, MERGE)
            except (ApiError, UnreachableError) as error:
                _LOG.warning("ClusterPolicy %s: %s", settings.name, error)


def _place(thing: Object) -> str:
    return f"{thing['metadata']['namespace']}/{thing['metadata']['name']}"


def _own_labels(node: Object, gpus: hardware.Hardware) -> dict[str, str | None]:
    labels = node["metadata"].get("labels") or {}
    return node_view.operator_labels(labels, gpus.model.mig is not None)


async def _delay(annotations: Mapping[str, str]) -> None:
    """Take as long as the node's annotation says; 5s, 500ms and 1m are understood, anything else is 0."""
    match = re.fullmatch(r"(\d+)(ms|s|m)", annotations.get(names.DELAY_ANNOTATION, ""))
    if match:
        await asyncio.sleep(int(match[1]) * {"ms": 0.001, "s": 1.0, "m": 60.0}[match[2]])
