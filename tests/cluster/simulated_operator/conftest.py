"""The simulated GPU Operator at work: a cluster with its settings in place, and what can be asked of a node.

Nothing here comes from the product's generators: settings are written by hand, as a user of the real
operator would write them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

Object = dict[str, Any]

NAMESPACE = "gpu-operator"
ERROR = "simulated.gpupool.dev/error"

CONFIGS = {
    "exclusive": "version: v1\n",
    "ts8": "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 8}]}}\n",
    "ts8-renamed": (
        "version: v1\n"
        "sharing: {timeSlicing: {renameByDefault: true, resources: [{name: nvidia.com/gpu, replicas: 8}]}}\n"
    ),
    "mps4": "version: v1\nsharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n",
    "mixed": "version: v1\nflags: {migStrategy: mixed}\n",
    "single": "version: v1\nflags: {migStrategy: single}\n",
    "mixed-ts2": (
        "version: v1\nflags: {migStrategy: mixed}\n"
        "sharing: {timeSlicing: {resources: [{name: nvidia.com/mig-3g.40gb, replicas: 2}]}}\n"
    ),
}
MIG_CONFIGS = """
version: v1
mig-configs:
  all-disabled: [{devices: all, mig-enabled: false}]
  split: [{devices: all, mig-enabled: true, mig-devices: {3g.40gb: 1, 2g.20gb: 2}}]
  thirds: [{devices: all, mig-enabled: true, mig-devices: {2g.20gb: 3}}]
  sevenths: [{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}]
  half:
    - {devices: [0, 1, 2, 3], mig-enabled: true, mig-devices: {7g.80gb: 1}}
    - {devices: [4, 5, 6, 7], mig-enabled: false}
  impossible: [{devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2, 1g.10gb: 1}}]
  typo: [{devices: all, mig-enabled: true, mig-devices: {3g.80gb: 1}}]
"""


def config_map(name: str, data: dict[str, str]) -> Object:
    meta = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def policy(plugin_map: str = "plugin", mig_map: str = "mig", **spec: Any) -> Object:
    """A ClusterPolicy as small as its schema allows; `spec` replaces whole parts."""
    parts = ("dcgm", "dcgmExporter", "driver", "gfd", "nodeStatusExporter", "operator", "toolkit", "mig")
    whole: dict[str, Any] = {part: {} for part in parts}
    whole["daemonsets"] = {"tolerations": [{"key": "gpu", "operator": "Exists"}]}
    whole["devicePlugin"] = {"config": {"name": plugin_map}}
    whole["migManager"] = {"config": {"name": mig_map, "default": ""}}
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "cluster-policy"},
        "spec": whole | spec,
    }


class Operated:
    """A cluster with the operator; `kube` is its API."""

    def __init__(self, kube: Any) -> None:
        self.kube = kube
        self.wait = kube.wait
        self.stays = kube.stays

    def settings(self) -> None:
        """Put the usual settings in place."""
        self.kube.apply(
            config_map("plugin", CONFIGS), config_map("mig", {"config.yaml": MIG_CONFIGS}), policy()
        )

    def plugin_configs(self, name: str = "plugin", **changed: str) -> None:
        """Write the device plugin's ConfigMap with some configurations changed or added."""
        self.kube.apply(config_map(name, CONFIGS | changed))

    def policy(self, **changed: Any) -> None:
        """Write the ClusterPolicy, see `policy`."""
        self.kube.apply(policy(**changed))

    def resources(self, node: str) -> dict[str, int]:
        """What the node offers, zeros included; capacity and allocatable must agree."""
        status = self.kube.node(node)["status"]
        offered, had = (
            {key: int(value) for key, value in status[field].items() if key.startswith("nvidia.com/")}
            for field in ("allocatable", "capacity")
        )
        assert offered == had
        return offered

    def offers(self, node: str, **expected: int) -> None:
        """Wait until the node offers this, named without `nvidia.com/`, and nothing else but zeros."""
        wanted = {f"nvidia.com/{key}": count for key, count in expected.items()}

        def check() -> bool:
            found = {key: count for key, count in self.resources(node).items() if count}
            assert found == wanted, found
            return True

        self.wait(f"node {node} offers {wanted}", check)

    def labels(self, node: str) -> dict[str, str]:
        found: dict[str, str] = self.kube.node(node)["metadata"].get("labels", {})
        return found

    def error(self, node: str) -> str:
        """What the operands of the node complain about; empty when they don't."""
        found: str = self.kube.node(node)["metadata"].get("annotations", {}).get(ERROR, "")
        return found

    def set_label(self, node: str, key: str, value: str | None) -> None:
        self.kube.patch_node(node, {"metadata": {"labels": {key: value}}})

    def annotate(self, node: str, key: str, value: str | None) -> None:
        self.kube.patch_node(node, {"metadata": {"annotations": {key: value}}})


@pytest.fixture
def cluster(kube: Any) -> Iterator[Any]:
    """Empty but for the operator's namespace, whose removal would take five seconds a test."""
    keep = frozenset({NAMESPACE})
    kube.wipe(keep)
    kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    yield kube
    kube.wipe(keep)


@pytest.fixture
def unset_operator(cluster: Any) -> Operated:
    """The cluster before anybody gave the operator settings."""
    return Operated(cluster)


@pytest.fixture
def operator(unset_operator: Operated) -> Operated:
    """The cluster with the operator's usual settings in place."""
    unset_operator.settings()
    return unset_operator
