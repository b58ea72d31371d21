"""Why a node offers other slices than planned: the likeliest cause that the evidence shows.

REASONS are checked in order, the strongest evidence first; the first that applies is reported.
Each is pure and checks one node. `slices` finds the nodes that offer something else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpupool.environment.plan import mig_strategy
from gpupool.environment.plan.model import Machine
from gpupool.environment.sharing import GPU_RESOURCE, SHARED_RESOURCE
from gpupool.findings import Category
from gpupool.generators.device_plugin import DEFAULT_KEY
from gpupool.live.cluster.live_objects import MIG_LABEL, MIG_STATE_LABEL, NO_LAYOUT, PLUGIN_LABEL, offered
from gpupool.live.cluster.snapshot import labels
from gpupool.live.drift import limits, repair
from gpupool.live.drift.ages import duration
from gpupool.live.drift.drift_input import DriftInput
from gpupool.live.drift.operator_view import DEPLOY, OPT_OUT, OperatorView
from gpupool.live.drift.pool_nodes import PoolNode
from gpupool.live.drift.prepared_configs import failed_repair

_CARRYING = frozenset({"driver", "container-toolkit", "operator-validator", "gpu-feature-discovery"})
"""Operands without which the device plugin has nothing to offer, or waits (gpu-operator v26.7.0)."""


@dataclass(frozen=True, slots=True)
class UnmetNode:
    """A node, what it should offer, and what it offers."""

    inputs: DriftInput
    view: OperatorView
    row: PoolNode
    machine: Machine
    found: Mapping[str, int]

    @property
    def wanted(self) -> Mapping[str, int]:
        return self.machine.slices


@dataclass(frozen=True, slots=True)
class Cause:
    """The cause, its name, and the command that fixes it."""

    kind: str
    why: str
    remediation: str
    category: Category = Category.drift


def operator_at_work(case: UnmetNode) -> Cause | None:
    """mig.config.state says that the MIG manager works, or a pod of the operator is just starting."""
    state = labels(case.row.node).get(MIG_STATE_LABEL)
    inspect = f"kubectl get node {case.row.name} --show-labels"
    if state in ("pending", "rebooting"):
        lasting = case.view.mig_state_since(case.row.node)
        reason = f"the MIG manager is running ({MIG_STATE_LABEL}={state} for {duration(lasting)})"
        if lasting < limits.MIG:
            return Cause("operator-applying", reason, inspect, Category.settling)
        _, restore = failed_repair(case.inputs, case.view, case.row, repartitioned(case))
        return Cause("mig-stuck", f"{reason} and has not finished", restore)
    pod = case.view.at_work(case.row.name)
    if pod:
        return Cause(
            "operator-applying",
            f"the operator is still applying: pod {pod} starts",
            inspect,
            Category.settling,
        )
    return None


def mig_failed(case: UnmetNode) -> Cause | None:
    if labels(case.row.node).get(MIG_STATE_LABEL) != "failed" or not case.row.pool.mig_config:
        return None
    reason = case.view.complaint(case.row.node)
    why = f"the MIG manager failed ({MIG_STATE_LABEL}=failed)" + (f": {reason}" if reason else "")
    lacking, restore = failed_repair(case.inputs, case.view, case.row, repartitioned(case))
    return Cause("mig-failed", f"{why}; {lacking or 'it retries only when the label changes'}", restore)


def operand_off(case: UnmetNode) -> Cause | None:
    """A label keeps one operand off. Without the device plugin, or a partitioned node's MIG manager, what
    the node offers does not last; of the others some are rightly off, as a driver that the machine brings."""
    needed = {"device-plugin", *(("mig-manager",) if case.row.pool.mig_config else ())}
    have, same = labels(case.row.node), case.found == dict(case.wanted)
    for key, value in sorted(have.items()):
        operand = key.removeprefix(DEPLOY)
        if not key.startswith(DEPLOY) or value != "false" or key == OPT_OUT or key in case.row.pool.labels:
            continue
        if operand in needed or (operand in _CARRYING and not same):
            why = f"the label {key}=false keeps the operator's {operand} off the node"
            return Cause("operands-off", why, repair.label(case.row.name, key, None))
    return None


def operands_off(case: UnmetNode) -> Cause | None:
    if labels(case.row.node).get(OPT_OUT) == "false":
        why = f"the label {OPT_OUT}=false keeps the operator's operands off"
        return Cause("operands-off", why, repair.label(case.row.name, OPT_OUT, None))
    taint = case.view.intolerable(case.row.node)
    if not taint:
        return None
    why = f"the operator's daemonsets do not tolerate the taint {taint}, so no operand runs there"
    own = {f"{t.key}={t.value}:{t.effect}" for t in case.row.pool.taints}
    key, _, effect = taint.partition("=")[0], "", taint.rpartition(":")[2]
    off = repair.untaint(case.row.name, key, effect)
    return Cause("operands-off", why, case.inputs.restore(*case.inputs.policy_parts) if taint in own else off)


def operator_settings(case: UnmetNode) -> Cause | None:
    """The ClusterPolicy is not the file's in what decides about slices."""
    restore = case.inputs.restore(*case.inputs.policy_parts)
    if case.view.setting("devicePlugin", "enabled") is False:
        return Cause("operator-settings", "the ClusterPolicy disables the device plugin", restore)
    foreign = case.view.foreign_config()
    if foreign:
        return Cause("operator-settings", foreign, restore)
    if mig_strategy.overridden(case.row.pool, (case.view.policy or {}).get("spec")):
        strategy = case.view.setting("mig", "strategy")
        path = ("spec", "mig", "strategy")
        without = repair.remove_field("ClusterPolicy", case.view.policy_name, None, path)
        why = f"the ClusterPolicy's mig.strategy \"{strategy}\" overrides the pool's configuration"
        return Cause("wrong-strategy", why, without)
    return None


def plugin_crashed(case: UnmetNode) -> Cause | None:
    reason = case.view.complaint(case.row.node)
    if case.found or not reason:
        return None
    return Cause("plugin-crashed", f"the device plugin does not run: {reason}", _restarted(case))


def typed_by_hand(case: UnmetNode) -> Cause | None:
    """The ConfigMap in the cluster is not the file's."""
    if case.row.pool.mig_config:
        if case.view.layout_edited():
            why = "the layouts in the MIG manager's ConfigMap were changed manually"
            return Cause(
                "layout-by-hand",
                why,
                repair.all_of(case.inputs.restore(), repartitioned(case)),
            )
        return None
    planned = _per_gpu(case, case.wanted)
    live = case.view.replicas(case.row.pool.name)
    if live is None or planned is None or live == planned:
        return None
    why = f"replicas were changed manually: the ConfigMap has {live} per GPU, the file {planned}"
    return Cause("replicas-by-hand", why, repair.all_of(case.inputs.restore(), _restarted(case)))


def unhealthy(case: UnmetNode) -> Cause | None:
    """The kubelet counts devices in its capacity, and only healthy ones as allocatable."""
    if offered(case.row.node, "capacity") != case.wanted or not case.found:
        return None
    lost = {n: c - case.found.get(n, 0) for n, c in case.wanted.items() if c > case.found.get(n, 0)}
    gone = ", ".join(f"{count} {name}" for name, count in lost.items())
    claim = case.row.claim
    replace = (
        repair.delete("nodeclaim", claim["metadata"]["name"]) if claim else "check the node for XID errors"
    )
    return Cause("device-unhealthy", f"the device plugin reports {gone} as unhealthy", replace)


def settings_fresh(case: UnmetNode) -> Cause | None:
    """The operator's settings have just changed, and no pod shows more."""
    lasting = min(case.view.changed(), case.inputs.age(case.row.node))
    if lasting >= limits.OPERATOR:
        return None
    why = f"the operator is still applying: its settings changed {duration(lasting)} ago"
    return Cause("operator-applying", why, f"kubectl get node {case.row.name}", Category.settling)


def nothing_offered(case: UnmetNode) -> Cause | None:
    if case.found:
        return None
    discovered = "nvidia.com/gpu.present" in labels(case.row.node)
    if not discovered and case.inputs.age(case.row.node) < limits.START:
        why = "the operator has not processed the node yet"
        return Cause("operator-applying", why, f"kubectl get node {case.row.name}", Category.settling)
    why = "the device plugin has registered nothing: it does not run there, or has crashed"
    return Cause("plugin-silent", why, _restarted(case))


def other_strategy(case: UnmetNode) -> Cause | None:
    """Resources of another way of sharing than the pool's."""
    if set(case.found) <= set(case.wanted):
        return None
    strange = ", ".join(sorted(set(case.found) - set(case.wanted)))
    why = f"{strange} belongs to a different sharing mode than {case.row.pool.sharing.mode}"
    restore = repartitioned(case) if case.row.pool.mig_config else _restarted(case)
    return Cause("wrong-strategy", why, restore)


def not_restarted(case: UnmetNode) -> Cause | None:
    """Everything has the planned count except the plugin, which still has an earlier configuration."""
    if case.row.pool.mig_config:
        why = "the GPUs are partitioned differently than the label says"
        lacking, restore = failed_repair(case.inputs, case.view, case.row, repartitioned(case))
        return Cause("mig-not-applied", f"{why}; {lacking}" if lacking else why, restore)
    loaded = _per_gpu(case, case.found)
    reason = f", {loaded} per GPU" if loaded else ""
    why = (
        f"the device plugin was not restarted after its configuration changed: it uses an earlier one{reason}"
    )
    return Cause("plugin-not-restarted", why, _restarted(case))


REASONS: tuple[Callable[[UnmetNode], Cause | None], ...] = (
    operator_at_work,
    mig_failed,
    operand_off,
    operands_off,
    operator_settings,
    plugin_crashed,
    typed_by_hand,
    unhealthy,
    settings_fresh,
    nothing_offered,
    other_strategy,
    not_restarted,
)


def likeliest(case: UnmetNode) -> Cause:
    """The first cause that the evidence shows."""
    return next(cause for cause in (reason(case) for reason in REASONS) if cause is not None)


def _per_gpu(case: UnmetNode, counts: Mapping[str, int]) -> int | None:
    """Slices per physical GPU, where it is a whole number."""
    whole = counts.get(GPU_RESOURCE, 0) or counts.get(SHARED_RESOURCE, 0)
    return whole // case.machine.gpus if whole and whole % case.machine.gpus == 0 else None


def _restarted(case: UnmetNode) -> repair.Command:
    """Another configuration and back: the plugin's sidecar restarts it on a change of the label
    (k8s-device-plugin v0.20.0, config-manager), and feature discovery shows when it has."""
    name, key = case.row.name, case.row.pool.labels[PLUGIN_LABEL]
    return repair.all_of(
        repair.label(name, PLUGIN_LABEL, DEFAULT_KEY),
        repair.wait_label(name, "nvidia.com/gpu.replicas", "1"),
        repair.label(name, PLUGIN_LABEL, key),
    )


def repartitioned(case: UnmetNode) -> repair.Command:
    """Another layout and back: the MIG manager acts only when the label changes (mig-parted v0.15.0).
    Nothing may use the node's GPUs during this."""
    name, layout = case.row.name, case.row.pool.labels[MIG_LABEL]
    return repair.all_of(
        repair.label(name, MIG_LABEL, NO_LAYOUT),
        repair.wait_label(name, MIG_STATE_LABEL, "success"),
        repair.label(name, MIG_LABEL, layout),
    )
