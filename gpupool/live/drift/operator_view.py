"""The GPU Operator's settings and what it reports about a node, from a snapshot. Judges nothing.

Names: gpu-operator v26.7.0, k8s-device-plugin v0.20.0, mig-parted v0.15.0. On the local control plane the
simulated operator has no pods; what its operands would log is in an annotation of the node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import yaml

from gpupool.environment.plan.model import Taint
from gpupool.environment.spec.environment import CLUSTER_POLICY
from gpupool.generators.device_plugin import config_map_name as plugin_config_map
from gpupool.generators.mig_parted import config_map_name as mig_config_map
from gpupool.live.cluster.live_objects import (
    MIG_LABEL,
    MIG_STATE_LABEL,
    OPERANDS,
    PLUGIN_LABEL,
    STEERING,
    condition,
    config_name,
    oldest,
)
from gpupool.live.cluster.snapshot import Object, notes
from gpupool.live.drift.drift_input import DriftInput
from gpupool.live.objects.ownership import Ownership

OPT_OUT = "nvidia.com/gpu.deploy.operands"
DEPLOY = "nvidia.com/gpu.deploy."
"""Beginning of the labels that say which operand runs on a node; all but "false" let it run, as what the
operator writes itself while it works (true, pre-installed, paused-for-mig-change)."""
DRIVER = "nvidia.com/cuda.driver-version.full"
_OPERAND_OF = dict(zip(STEERING, OPERANDS, strict=True))
"""Steering label -> the operand whose configuration it names."""
_LAYOUTS = "config.yaml"
"""Where the MIG manager's ConfigMap has its layouts."""
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
        return oldest(self._inputs.snapshot.of("nvidia.com/v1", "ClusterPolicy"))

    @property
    def _namespace(self) -> str:
        return self._inputs.plan.gpu_operator.namespace

    @property
    def policy_name(self) -> str:
        """The name of that policy, or what it would be called."""
        return str(self.policy["metadata"]["name"]) if self.policy else CLUSTER_POLICY

    def setting(self, *path: str) -> Any:
        """One value of the live ClusterPolicy's spec; None where it is not set."""
        value: Any = self.policy
        for step in ("spec", *path):
            value = value.get(step) if isinstance(value, Mapping) else None
        return value

    def foreign_config(self) -> str:
        """What the operator follows instead of our configurations; empty where it follows them."""
        if self.policy is None:
            return "there is no ClusterPolicy, so the operator does nothing"
        for key, operand in _OPERAND_OF.items():
            name, live = self._map_name(key), config_name(self.policy, operand)
            if name and live != name:
                return f"{operand} uses ConfigMap {live or '(none)'} instead of {name}"
        return ""

    def map_of(self, key: str) -> Object | None:
        """The file's ConfigMap with what the steering label `key` names, as it is in the cluster."""
        return self._inputs.snapshot.find("v1", "ConfigMap", self._map_name(key) or "", self._namespace)

    def _map_name(self, key: str) -> str | None:
        return (plugin_config_map if key == PLUGIN_LABEL else mig_config_map)(self._inputs.plan)

    def _planned(self, key: str, entry: str) -> str | None:
        name = self._map_name(key)
        ours = (m for m in self._inputs.bundle if m.kind == "ConfigMap" and m.name == name)
        return next((m.body["data"].get(entry) for m in ours), None)

    def configured(self, key: str, value: str, *, live: bool) -> Any:
        """What the label `key` with that value means to the operator, in the cluster or in the file; None
        where there is no such configuration."""
        entry = value if key == PLUGIN_LABEL else _LAYOUTS
        text = self._planned(key, entry)
        if live:
            name = config_name(self.policy, _OPERAND_OF[key])
            followed = self._inputs.snapshot.find("v1", "ConfigMap", name, self._namespace) or {}
            text = (followed.get("data") or {}).get(entry)
        try:
            found = yaml.safe_load(text) if text is not None else None
        except yaml.YAMLError:
            return None
        if key == PLUGIN_LABEL:
            return found
        layouts = found.get("mig-configs") if isinstance(found, dict) else None
        return layouts.get(value) if isinstance(layouts, dict) else None

    def replicas(self, key: str) -> int | None:
        """Slices per GPU that the device plugin's configuration now says; None where it can't be read."""
        value = self.configured(PLUGIN_LABEL, key, live=True)
        if not isinstance(value, Mapping):
            return None
        sharing = value.get("sharing") or {}
        rows = [
            row for how in sharing.values() if isinstance(how, Mapping) for row in how.get("resources") or ()
        ]
        return next((int(row["replicas"]) for row in rows if str(row.get("replicas", "")).isdigit()), 1)

    def layout_edited(self) -> bool:
        """Whether the layouts in the cluster are not those of the file."""
        ours, live = self._planned(MIG_LABEL, _LAYOUTS), self.map_of(MIG_LABEL) or {}
        return ours is not None and (live.get("data") or {}).get(_LAYOUTS) != ours

    def changed(self) -> float:
        """Seconds since somebody last changed the operator's settings."""
        rows = [(self.policy, "spec"), *((self.map_of(key), "data") for key in STEERING)]
        ages = []
        for thing, part in rows:
            if thing is not None:
                written = Ownership(thing).of((part,), "")[1]
                ages.append(self._inputs.seconds_since(written) if written else self._inputs.age(thing))
        return min(ages, default=0.0)

    def mig_state_since(self, node: Object) -> float:
        """Seconds since the MIG manager last wrote the node: labels have no time of their own."""
        moment = Ownership(node).of(("metadata", "labels", MIG_STATE_LABEL), "")[1]
        return self._inputs.seconds_since(moment) if moment else self._inputs.age(node)

    def intolerable(self, node: Object) -> str:
        """The taint that keeps the operands off a node; empty if there is none."""
        rows = self.setting("daemonsets", "tolerations") or ()
        for taint in (node.get("spec") or {}).get("taints") or ():
            if taint["effect"] == "PreferNoSchedule" or taint["key"].startswith(_ALWAYS_TOLERATED):
                continue
            if not Taint(taint["key"], taint.get("value", ""), taint["effect"]).tolerated_by(rows):
                return f"{taint['key']}={taint.get('value', '')}:{taint['effect']}"
        return ""

    def pods(self, node: str) -> Iterator[Object]:
        """The operator's pods on a node."""
        for pod in self._inputs.snapshot.pods_on(node):
            if pod["metadata"].get("namespace") == self._namespace:
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
