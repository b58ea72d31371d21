"""The GPU Operator: Helm values, and for the local cluster the ClusterPolicy that they amount to.

Where the operator is somebody else's (`gpuOperator.install: false`), a patch of the fields of its
ClusterPolicy that the pools depend on. Values: chart gpu-operator v26.7.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpupool.generators import device_requests
from gpupool.generators.device_plugin import DEFAULT_KEY
from gpupool.generators.device_plugin import config_map_name as device_plugin_config_map
from gpupool.generators.manifest import HelmRelease, Manifest
from gpupool.generators.metadata import manifest_of
from gpupool.generators.mig_parted import config_map_name as mig_config_map
from gpupool.generators.monitoring import fields_map_name
from gpupool.monitoring import exporter
from gpupool.plan.helm_values import merged
from gpupool.plan.model import OPERATOR_NAMESPACE, Plan
from gpupool.spec.environment import CLUSTER_POLICY

REPOSITORY = "https://helm.ngc.nvidia.com/nvidia"
"""NVIDIA's chart repository."""
_DEFAULT_TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
_REBOOT = {"name": "WITH_REBOOT", "value": "true"}
_CONTROL_PLANE = {
    "key": "node-role.kubernetes.io/control-plane",
    "operator": "Exists",
    "effect": "NoSchedule",
}


def generate(plan: Plan) -> Iterator[Manifest | HelmRelease]:
    if plan.cluster.platform == "local":
        yield manifest_of(plan, "ClusterPolicy", CLUSTER_POLICY, spec=_policy_spec(values(plan)))
    elif plan.gpu_operator.install:
        yield HelmRelease(
            name="gpu-operator",
            namespace=OPERATOR_NAMESPACE,
            chart="gpu-operator",
            repository=REPOSITORY,
            version=plan.gpu_operator.version,
            values=values(plan),
        )
    else:
        # Tolerations are one field as a whole: setting it would take the owner's own away.
        wanted = _policy_spec(values(plan))
        operands = ["devicePlugin", *(["migManager"] if mig_config_map(plan) else [])]
        configs = {operand: {"config": wanted[operand]["config"]} for operand in operands}
        if plan.monitoring.prometheus_operator:
            configs["dcgmExporter"] = {"config": {"name": fields_map_name(plan)}}
        name = plan.gpu_operator.cluster_policy
        policy = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": name}}
        yield Manifest({**policy, "spec": configs}, patch=True)


def values(plan: Plan) -> dict[str, Any]:
    """The chart's values: what the pools need, then the user's own merged over them."""
    tolerations = operand_tolerations(plan)
    mig_configs = mig_config_map(plan)
    ours: dict[str, Any] = {
        "driver": plan.gpu_operator.driver.model_dump(exclude_none=True),
        # Empty, so that each node's device-plugin config decides: a value here would override them all.
        "mig": {"strategy": ""},
        "devicePlugin": {
            "config": {"create": False, "name": device_plugin_config_map(plan), "default": DEFAULT_KEY}
        },
        "migManager": {"config": {"create": False, "name": mig_configs or "", "default": "all-disabled"}},
        "daemonsets": {"tolerations": tolerations},
        # The chart's own list lets the worker onto control-plane nodes, as a single-node cluster needs.
        "node-feature-discovery": {"worker": {"tolerations": [_CONTROL_PLANE, *tolerations]}},
        "dcgmExporter": _exporter(plan),
    }
    chosen = merged(ours, plan.gpu_operator.values)
    chosen = merged(chosen, device_requests.values(plan.gpu_operator))
    if _reboots(plan):
        chosen["migManager"]["env"] = device_requests.with_variables(chosen["migManager"], [_REBOOT])
    return chosen


def _exporter(plan: Plan) -> dict[str, Any]:
    """Settings of the DCGM exporter, but for those that the file sets itself. On shared GPUs it looks at the
    processes of the node, to know whose memory and time are whose (dcgm-exporter issue 594)."""
    if plan.cluster.platform == "local":
        return {"serviceMonitor": {"enabled": False}}  # the simulated operator runs no exporter
    theirs: Any = plan.gpu_operator.values.get("dcgmExporter")
    rows = (theirs.get("env") if isinstance(theirs, Mapping) else None) or []
    own = [{"name": name, "value": value} for name, value in exporter.settings(plan).items()]
    named = {row.get("name") for row in rows if isinstance(row, Mapping)}
    return {
        "config": {"create": False, "name": fields_map_name(plan)},
        "env": [*(row for row in own if row["name"] not in named), *rows],
        **({"hostPID": True} if exporter.shared_pools(plan) else {}),
        # `gpupool.generators.monitoring` has one that knows nodes and pools.
        "serviceMonitor": {"enabled": False},
    }


def operand_tolerations(plan: Plan) -> list[dict[str, str]]:
    """Tolerations of every taint of every pool: without them no operand runs there and no GPU appears."""
    wanted = [_DEFAULT_TOLERATION]
    for pool in plan.pools:
        wanted += [taint.toleration() for taint in pool.taints if taint.toleration() not in wanted]
    return [wanted[0], *sorted(wanted[1:], key=lambda toleration: sorted(toleration.items()))]


def _reboots(plan: Plan) -> bool:
    """Whether the MIG manager has to reboot nodes: where GPUs reset into MIG mode by that alone."""
    return plan.cluster.platform == "eks" and any(
        pool.gpu.reboots_into_mig for pool in plan.pools if pool.mig_config
    )


def _policy_spec(chart: Mapping[str, Any]) -> dict[str, Any]:
    """What the chart makes of `chart` in ClusterPolicy v1. An empty strategy is left out, as the chart does:
    the CRD's enumeration has no empty string."""
    strategy = chart["mig"]["strategy"]
    return {
        "operator": {"defaultRuntime": "containerd"},
        "daemonsets": chart["daemonsets"],
        "driver": chart["driver"],
        "toolkit": {"enabled": True, **chart.get("toolkit", {})},
        "devicePlugin": {
            "enabled": True,
            **({"env": chart["devicePlugin"]["env"]} if "env" in chart["devicePlugin"] else {}),
            "config": {key: chart["devicePlugin"]["config"][key] for key in ("name", "default")},
        },
        "dcgm": {"enabled": False},
        "dcgmExporter": chart["dcgmExporter"],
        "gfd": {"enabled": True},
        "nodeStatusExporter": {"enabled": False},
        "mig": {"strategy": strategy} if strategy else {},
        "migManager": {"enabled": True}
        | ({"config": {key: chart["migManager"]["config"][key] for key in ("name", "default")}})
        | ({"env": chart["migManager"]["env"]} if "env" in chart["migManager"] else {}),
    }
