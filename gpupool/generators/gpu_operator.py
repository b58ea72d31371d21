"""The GPU Operator: Helm values, and for the local cluster the ClusterPolicy that they amount to.

Where the operator is somebody else's (`gpuOperator.install: false`), a patch of the fields of its
ClusterPolicy that the pools depend on. Values: chart gpu-operator v26.7.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpupool.environment.plan import mig_strategy
from gpupool.environment.plan.helm_values import merged, stated
from gpupool.environment.plan.model import POOL_LABEL, Plan
from gpupool.environment.plan.operator_place import SIMULATED_IN
from gpupool.environment.spec.environment import CLUSTER_POLICY, OPERATOR_NAMESPACE
from gpupool.environment.spec.yaml_source import value_at
from gpupool.generators import device_requests
from gpupool.generators.device_plugin import DEFAULT_KEY
from gpupool.generators.device_plugin import config_map_name as device_plugin_config_map
from gpupool.generators.manifest import HelmRelease, Manifest
from gpupool.generators.metadata import manifest_of
from gpupool.generators.mig_parted import config_map_name as mig_config_map
from gpupool.generators.monitoring import exporter
from gpupool.generators.monitoring.objects import fields_map_name

REPOSITORY = "https://helm.ngc.nvidia.com/nvidia"
"""NVIDIA's chart repository."""
CHART_DEFAULTS: Mapping[str, Any] = {
    "mig": {"strategy": "single"},
    "daemonsets": {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]},
}
"""What an operator has there whose owner sets nothing (values.yaml of v25.3.2 to v26.7.0)."""
_REBOOT = {"name": "WITH_REBOOT", "value": "true"}
_CONTROL_PLANE = {
    "key": "node-role.kubernetes.io/control-plane",
    "operator": "Exists",
    "effect": "NoSchedule",
}


def generate(plan: Plan) -> Iterator[Manifest | HelmRelease]:
    if plan.cluster.platform == "local":
        elsewhere = plan.gpu_operator.namespace != OPERATOR_NAMESPACE
        annotations = {SIMULATED_IN: plan.gpu_operator.namespace} if elsewhere else None
        spec = _policy_spec(values(plan))
        yield manifest_of(plan, "ClusterPolicy", CLUSTER_POLICY, annotations=annotations, spec=spec)
    elif plan.gpu_operator.install:
        yield HelmRelease(
            name="gpu-operator",
            namespace=plan.gpu_operator.namespace,
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
    ours: dict[str, Any] = {
        "driver": plan.gpu_operator.driver.model_dump(),
        "devicePlugin": {
            "config": {"create": False, "name": device_plugin_config_map(plan), "default": DEFAULT_KEY}
        },
        "migManager": {"config": {"create": False, "name": mig_config_map(plan), "default": "all-disabled"}},
        "daemonsets": {"tolerations": tolerations},
        # The chart's own list lets the worker onto control-plane nodes, as a single-node cluster needs.
        "node-feature-discovery": {"worker": {"tolerations": [_CONTROL_PLANE, *tolerations]}},
        "dcgmExporter": _exporter(plan),
    }
    ours = merged(mig_strategy.chart_values(plan.pools), stated(ours))
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
        # `gpupool.generators.monitoring.objects` has one that knows nodes and pools.
        "serviceMonitor": {"enabled": False},
    }


def operand_tolerations(plan: Plan) -> list[dict[str, str]]:
    """Tolerations of every taint of every pool: without them no operand runs there and no GPU appears.

    By key and not by pool, because a change of them restarts every operand, the driver too.
    """
    usual = CHART_DEFAULTS["daemonsets"]["tolerations"]
    others = {t.key for pool in plan.pools for t in pool.taints if not t.tolerated_by(usual)}
    return [*usual, *({"key": key, "operator": "Exists"} for key in sorted({POOL_LABEL, *others}))]


def lacking(plan: Plan, settings: Mapping[str, Any] = CHART_DEFAULTS) -> dict[str, Any]:
    """Helm values that the owner of an operator of somebody else's has to set for the pools; empty where its
    settings (a ClusterPolicy's spec) will do. gpupool sets none of them: tolerations are one field as a
    whole, and its owner's own would go."""
    chosen, missing = values(plan), dict[str, Any]()
    there = value_at(settings, ("daemonsets", "tolerations")) or CHART_DEFAULTS["daemonsets"]["tolerations"]
    hard = (t for pool in plan.pools for t in pool.taints if t.effect != "PreferNoSchedule")
    if not all(taint.tolerated_by(there) for taint in hard):
        missing |= {key: chosen[key] for key in ("daemonsets", "node-feature-discovery")}
    if any(mig_strategy.overridden(pool, settings) for pool in plan.pools):
        missing |= mig_strategy.chart_values(plan.pools)
    return missing


def _reboots(plan: Plan) -> bool:
    """Whether the MIG manager has to reboot nodes: where GPUs reset into MIG mode by that alone."""
    return plan.cluster.platform == "eks" and any(
        pool.gpu.reboots_into_mig for pool in plan.pools if pool.mig_config
    )


def _policy_spec(chart: Mapping[str, Any]) -> dict[str, Any]:
    """What the chart makes of `chart` in ClusterPolicy v1, but that it leaves the strategy to the nodes'
    configurations, as no value of the chart can."""
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
        "mig": {},
        "migManager": {"enabled": True}
        | {"config": {key: value for key, value in chart["migManager"]["config"].items() if key != "create"}}
        | ({"env": chart["migManager"]["env"]} if "env" in chart["migManager"] else {}),
    }
