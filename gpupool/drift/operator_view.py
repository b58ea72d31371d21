"""The GPU Operator's settings and what it reports about a node, from a snapshot. Judges nothing.

Names: gpu-operator v26.7.0, k8s-device-plugin v0.20.0, mig-parted v0.15.0. On the local control plane the
simulated operator has no pods; what its operands would log is in an annotation of the node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import yaml

from generators.device_plugin import config_map_name as plugin_config_map
from generators.mig_parted import config_map_name as mig_config_map
from gpupool.cluster.live_objects import MIG_STATE_LABEL, condition
from gpupool.cluster.snapshot import Object, labels, notes
from gpupool.drift.comparison import Ownership
from gpupool.drift.drift_input import DriftInput
from gpupool.plan.model import OPERATOR_NAMESPACE

OPT_OUT = "nvidia.com/gpu.deploy.operands"
DEPLOY = "nvidia.com/gpu.deploy."
"""Beginning of the labels that say which operand runs on a node; all but "false" let it run, as what the
operator writes itself while it works (true, pre-installed, paused-for-mig-change)."""
DRIVER = "nvidia.com/cuda.driver-version.full"
_LOCAL_LOG = "simulated.gpupool.dev/error"
_ALWAYS_TOLERATED = "node.kubernetes.io/"
"""Taints that every DaemonSet's pods tolerate (Kubernetes documentation, DaemonSet)."""


class OperatorView:
    """The operator's settings in the cluster beside those of the file."""

    def __init__(self, inputs: DriftInput) -> None:
        self._inputs = inputs

    @cached_property
    def policy(self) -> Object | None:
        """The ClusterPolicy that the operator follows: the oldest one."""
        rows = sorted(
            self._inputs.snapshot.of("nvidia.com/v1", "ClusterPolicy"),
            key=lambda row: str(row["metadata"].get("creationTimestamp", "")),
        )
        return rows[0] if rows else None

    @property
    def spec(self) -> Mapping[str, Any]:
        return (self.policy or {}).get("spec") or {}

    def setting(self, *path: str) -> Any:
        """One value of the live ClusterPolicy's spec; None where it is not set."""
        value: Any = self.spec
        for step in path:
            value = value.get(step) if isinstance(value, Mapping) else None
        return value

    def foreign_config(self) -> str:
        """Which configuration the operator is pointed at instead of ours; empty where it is ours."""
        wanted = {"devicePlugin": plugin_config_map(self._inputs.plan)}
        mig = mig_config_map(self._inputs.plan)
        if mig:
            wanted["migManager"] = mig
        for operand, name in wanted.items():
            live = self.setting(operand, "config", "name")
            if live != name:
                return f"{operand} is pointed at ConfigMap {live or '(none)'} and not at {name}"
        return ""

    def text(self, name: str | None, key: str) -> str | None:
        """One entry of a ConfigMap in the operator's namespace, as it is in the cluster."""
        found = self._inputs.snapshot.find("v1", "ConfigMap", name or "", OPERATOR_NAMESPACE)
        value = ((found or {}).get("data") or {}).get(key)
        return None if value is None else str(value)

    def replicas(self, key: str) -> int | None:
        """Slices per GPU that the device plugin's configuration now says; None where it can't be read."""
        text = self.text(self.setting("devicePlugin", "config", "name"), key)
        try:
            value = yaml.safe_load(text) if text is not None else None
        except yaml.YAMLError:
            return None
        if not isinstance(value, Mapping):
            return None
        sharing = value.get("sharing") or {}
        rows = [
            row for how in sharing.values() if isinstance(how, Mapping) for row in how.get("resources") or ()
        ]
        return next((int(row["replicas"]) for row in rows if str(row.get("replicas", "")).isdigit()), 1)

    def layout_edited(self) -> bool:
        """Whether the layouts in the cluster are not those of the file."""
        name = mig_config_map(self._inputs.plan)
        ours = next((m for m in self._inputs.bundle if m.kind == "ConfigMap" and m.name == name), None)
        return ours is not None and self.text(name, "config.yaml") != ours.body["data"]["config.yaml"]

    def changed(self) -> float:
        """Seconds since somebody last changed the operator's settings."""
        rows = [(self.policy, "spec")]
        for name in (plugin_config_map(self._inputs.plan), mig_config_map(self._inputs.plan)):
            found = self._inputs.snapshot.find("v1", "ConfigMap", name or "", OPERATOR_NAMESPACE)
            rows.append((found, "data"))
        ages = []
        for thing, part in rows:
            if thing is not None:
                written = Ownership(thing).of((part,), "")[1]
                ages.append(self._inputs.since(written) if written else self._inputs.age(thing))
        return min(ages, default=0.0)

    def intolerable(self, node: Object) -> str:
        """The taint that keeps the operands off a node; empty if there is none."""
        rows = self.setting("daemonsets", "tolerations") or ()
        for taint in (node.get("spec") or {}).get("taints") or ():
            if taint["effect"] == "PreferNoSchedule" or taint["key"].startswith(_ALWAYS_TOLERATED):
                continue
            if not any(_tolerates(row, taint) for row in rows):
                return f"{taint['key']}={taint.get('value', '')}:{taint['effect']}"
        return ""

    def pods(self, node: str) -> Iterator[Object]:
        """The operator's pods on a node."""
        for pod in self._inputs.snapshot.pods_on(node):
            if pod["metadata"].get("namespace") == OPERATOR_NAMESPACE:
                yield pod

    def at_work(self, node: str) -> str:
        """A pod of the operator on the node that is not ready and has not failed; empty where none is."""
        for pod in self.pods(node):
            fresh = self._inputs.age(pod) < 3600.0
            if fresh and not self._trouble(pod) and condition(pod, "Ready").get("status") != "True":
                return str(pod["metadata"]["name"])
        return ""

    def complaint(self, node: Object) -> str:
        """What an operand that can't work on the node says."""
        for pod in self.pods(node["metadata"]["name"]):
            reason = self._trouble(pod)
            if reason:
                return f"pod {pod['metadata']['name']}: {reason}"
        return str(notes(node).get(_LOCAL_LOG, ""))

    def _trouble(self, pod: Object) -> str:
        status = pod.get("status") or {}
        for row in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
            waiting = (row.get("state") or {}).get("waiting") or {}
            if waiting.get("reason") in ("CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "Error"):
                ended = (row.get("lastState") or {}).get("terminated") or {}
                reason = ended.get("message") or waiting.get("message") or ""
                return f"{row.get('name')}: {waiting['reason']} {reason}".strip()
        return ""


def mig_state_since(inputs: DriftInput, node: Object) -> float:
    """Seconds since the MIG manager last wrote the node: labels have no time of their own."""
    moment = Ownership(node).of(("metadata", "labels", MIG_STATE_LABEL), "")[1]
    return inputs.since(moment) if moment else inputs.age(node)


def _tolerates(row: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """Kubernetes' rule: no key with Exists tolerates all, no effect means every effect."""
    if row.get("effect") and row["effect"] != taint["effect"]:
        return False
    if row.get("operator") == "Exists":
        return not row.get("key") or row["key"] == taint["key"]
    return bool(row.get("key") == taint["key"] and (row.get("value") or "") == (taint.get("value") or ""))


def gpu_labels_there(node: Object) -> bool:
    """Whether feature discovery has run on the node."""
    return "nvidia.com/gpu.present" in labels(node)
