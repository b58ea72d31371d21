"""What live objects say of themselves: conditions, the GPU slices of nodes and pods, the operator's settings.

Reads objects as the API server returns them, and judges nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from gpupool.live.cluster.kube_api import KubeApi

Object = Mapping[str, Any]
_Object = TypeVar("_Object", bound=Object)

INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type"
PLUGIN_LABEL = "nvidia.com/device-plugin.config"
MIG_LABEL = "nvidia.com/mig.config"
STEERING = (PLUGIN_LABEL, MIG_LABEL)
"""The labels that decide how a node's GPUs are shared (gpu-operator v26.7.0)."""
MIG_STATE_LABEL = "nvidia.com/mig.config.state"
"""What the MIG manager says: pending, rebooting, success or failed (mig-parted v0.15.0)."""
NO_LAYOUT = "all-disabled"
"""What the operator sets on nodes that ask for no layout; the same as no label."""
OPERANDS = ("devicePlugin", "migManager")
"""Operands that a ClusterPolicy points at a ConfigMap."""
_SERVER_SIDE = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid")
"""Metadata that the server writes."""

_GPU = re.compile(r"nvidia\.com/(gpu(\.shared)?|mig-.+)")
"""What the device plugin registers (k8s-device-plugin v0.20.0)."""


def as_sent(body: Object) -> dict[str, Any]:
    """An object without what only the server writes."""
    metadata = body.get("metadata")
    sent = {key: value for key, value in body.items() if key != "status"}
    if isinstance(metadata, dict):
        sent["metadata"] = {key: value for key, value in metadata.items() if key not in _SERVER_SIDE}
    return sent


def condition(thing: Object, kind: str) -> Object:
    """One entry of status.conditions by its type; empty where it is not there."""
    rows = (thing.get("status") or {}).get("conditions") or ()
    return next((row for row in rows if row.get("type") == kind), {})


def is_ready(node: Object) -> bool:
    """Whether its kubelet says that it is Ready."""
    return condition(node, "Ready").get("status") == "True"


def cluster_policy(api: KubeApi) -> Object | None:
    """The ClusterPolicy that the operator follows, whatever its name (OLM's is gpu-cluster-policy): the
    oldest. None where there is none."""
    return oldest(api.list("nvidia.com/v1", "ClusterPolicy"))


def oldest(objects: Iterable[_Object]) -> _Object | None:
    """The object that was created first; None of none."""
    return min(objects, key=lambda row: str(row["metadata"].get("creationTimestamp", "")), default=None)


def config_name(policy: Object | None, operand: str) -> str:
    """The ConfigMap that a ClusterPolicy points an operand at; empty where it names none."""
    settings = ((policy or {}).get("spec") or {}).get(operand) or {}
    return str((settings.get("config") or {}).get("name") or "")


def offered(node: Object, field: str = "allocatable") -> dict[str, int]:
    """The slices that a node offers, by resource. A kubelet keeps resources that are gone at zero (kubernetes
    issue 92396): those are left out."""
    return _slices((node.get("status") or {}).get(field) or {})


def is_gpu_slice(resource: str) -> bool:
    """Whether the name is one that the device plugin registers, and that environments count."""
    return _GPU.fullmatch(resource) is not None


def requested(pod: Object) -> dict[str, int]:
    """The slices that a pod holds, by resource, as the scheduler counts: what its containers and sidecars
    request together, or an init container with the sidecars before it, whichever is more (Kubernetes
    documentation, Sidecar Containers)."""
    together, most = Counter[str](), Counter[str]()
    for container in pod["spec"].get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            together += _of_container(container)
        else:
            most |= together + _of_container(container)
    for container in pod["spec"].get("containers") or ():
        together += _of_container(container)
    return dict(most | together)


def ended(pod: Object) -> bool:
    """Whether its containers have ended and will not start again."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def is_gpu_job(pod: Object) -> bool:
    """Whether it holds GPUs, and is no DaemonSet's pod, which stays on its node."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return (
        bool(requested(pod)) and not ended(pod) and all(owner.get("kind") != "DaemonSet" for owner in owners)
    )


def _of_container(container: Object) -> Counter[str]:
    resources = container.get("resources") or {}
    return Counter(_slices({**(resources.get("limits") or {}), **(resources.get("requests") or {})}))


def _slices(counts: Object) -> dict[str, int]:
    found = {name: str(count) for name, count in counts.items() if _GPU.fullmatch(name)}
    return {name: int(count) for name, count in found.items() if count.isdigit() and int(count)}
