"""What a change does to what NVIDIA's operator and Karpenter themselves run on nodes: restarts, driver
upgrades.

Which setting restarts what is in `gpupool.environment.plan.operator_restarts`; here is what else a change
means. Sources: GPU Operator v26.7.0 chart values (daemonsets.rollingUpdate); k8s-device-plugin v0.20.0. No
pool's maintenance window or maxUnavailable holds for any of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpupool.environment.plan import operator_restarts
from gpupool.environment.plan.model import Plan, Pool
from gpupool.environment.plan.operator_releases import load_operator_releases
from gpupool.environment.plan.operator_restarts import DEVICE_PLUGIN, MPS_DAEMON, DriverChange, Restart
from gpupool.environment.spec.environment import GpuOperator
from gpupool.generators.device_plugin import config_map_name as plugin_config
from gpupool.generators.gpu_operator import values as operator_values
from gpupool.generators.mig_parted import config_map_name as mig_config
from gpupool.review.report.effects import mps_daemons
from gpupool.review.report.environment_state import EnvironmentState, kept_pools
from gpupool.review.report.model import NodeEffect, PodFate

_CONFIGURED = {("devicePlugin", "config"), ("migManager", "config")}
"""Settings whose changes `_configurations` reports."""
_SWITCHED: Mapping[tuple[str, bool], str] = {
    ("install", True): "the operator is installed; an operator that others installed must be removed first",
    (
        "install",
        False,
    ): "the operator's release is removed: its device plugin, MIG manager and driver are removed "
    "from every GPU node, and no pod gets a GPU until another operator runs",
    (
        "driver.enabled",
        True,
    ): "the operator installs the driver on nodes whose image has none; other nodes are not changed",
    (
        "driver.enabled",
        False,
    ): "the operator's driver is removed from every GPU node; if the image includes no driver, GPUs "
    "are unavailable until the node is replaced",
}
"""What happens where a setting of `gpuOperator` is switched on or off."""
_MOVED = (
    "the operator's release is reinstalled in the other namespace: its device plugin, MIG manager and "
    "driver are removed from every GPU node meanwhile"
)


def effects(
    before: EnvironmentState | None, after: EnvironmentState | None, replaced: frozenset[str]
) -> Iterator[NodeEffect]:
    """Effects on all GPU nodes, and on pools whose sharing changes without a new node; `replaced` are pools
    that get new nodes anyway."""
    if before is None or after is None:
        return
    old, new = before.plan, after.plan
    changed = _restarts(old, new) if old.gpu_operator.install and new.gpu_operator.install else []
    yield from _operator(old, new, changed)
    yield from _configurations(old, new)
    reshared = list(_sharing(old, new, replaced))
    yield from reshared
    restarted = [_version(old.gpu_operator, new.gpu_operator)] if _another(old, new) else []
    restarted += [row.reason for row in changed if MPS_DAEMON in (row.operands or ())]
    yield from mps_daemons.effects(old, new, restarted, frozenset(each.pool for each in reshared))
    yield from _karpenter(old, new)


def _everywhere(
    reason: str,
    what: str,
    pods: PodFate,
    plan: Plan,
    certain: bool = True,
    at_once: int | None = 1,
) -> NodeEffect:
    return NodeEffect(
        "restarted",
        "",
        reason,
        what,
        nodes_max=sum(pool.nodes_max for pool in plan.pools),
        at_once=at_once,
        pods=pods,
        certain=certain,
    )


def _operator(old: Plan, new: Plan, changed: Sequence[Restart]) -> Iterator[NodeEffect]:
    was, now = old.gpu_operator, new.gpu_operator
    if was.install != now.install:
        yield _switched("install", now.install, old)
        return
    if not now.install:
        return
    if was.namespace != now.namespace:
        reason = f"gpuOperator.namespace becomes {now.namespace}"
        yield _everywhere(reason, _MOVED, "killed", old, certain=False, at_once=None)
        return
    if was.driver.enabled != now.driver.enabled:
        yield _switched("driver.enabled", now.driver.enabled, old)
    upgraded = list(_driver(old, new, changed)) if was.driver.enabled and now.driver.enabled else []
    yield from upgraded
    if _another(old, new) and not upgraded:
        yield _everywhere(_version(was, now), _daemonsets((), old, new), "kept", old)
    unknown = [row.reason for row in changed if row.operands is None]
    if unknown:
        what = "the operator's pods that restart depend on the values"
        yield _everywhere("; ".join(unknown), what, "kept", old, certain=False)
    rows = [row for row in changed if row.others and not (row.driver and upgraded)]
    if rows:
        operands = tuple(dict.fromkeys(name for row in rows for name in row.others))
        notes = "".join(f"; {row.note}" for row in rows if row.note)
        reason = "; ".join(row.reason for row in rows)
        yield _everywhere(reason, _daemonsets(operands, old, new) + notes, "kept", old)


def _another(old: Plan, new: Plan) -> bool:
    """Whether gpupool installs another release of the operator than before."""
    was, now = old.gpu_operator, new.gpu_operator
    return was.install and now.install and was.version != now.version


def _restarts(old: Plan, new: Plan) -> list[Restart]:
    """What restarts because of the operator's settings but for those that are reported apart: the
    driver's version, and the names of configurations."""
    was, now = (operator_values(plan) for plan in (old, new))
    for settings in (was, now):
        for field in ("enabled", "version"):
            settings["driver"].pop(field, None)
    rows = operator_restarts.between(was, now)
    return [row for row in rows if row.paths[0][:2] not in _CONFIGURED]


def _daemonsets(operands: Sequence[str], old: Plan, new: Plan) -> str:
    """Which pods restart, all of them where no operands are named."""
    mps = mps_daemons.but_for_mps(old, new) if not operands or MPS_DAEMON in operands else ""
    waiting = ", new ones wait until the node's device plugin is back"
    return (
        f"the operator's {', '.join(operands) or 'pods'} restart on every GPU node, one node at a time; "
        f"running pods stay{mps}{waiting if not operands or DEVICE_PLUGIN in operands else ''}"
    )


def _version(was: GpuOperator, now: GpuOperator) -> str:
    return f"gpuOperator.version goes from {was.version} to {now.version}"


def _switched(setting: str, on: bool, plan: Plan) -> NodeEffect:
    """The operator, or its driver, comes or goes."""
    what = _SWITCHED[setting, on]
    reason = f"gpuOperator.{setting} becomes {str(on).lower()}"
    if on:
        return _everywhere(reason, what, "kept", plan, certain=False)
    return _everywhere(reason, what, "killed", plan, certain=False, at_once=None)


def _driver(old: Plan, new: Plan, changed: Sequence[Restart]) -> Iterator[NodeEffect]:
    """The driver's pods, which nothing but the operator's upgrade controller replaces, node by node."""
    was, now = old.gpu_operator, new.gpu_operator
    versions = driver_version(was), driver_version(now)
    unknown, another = None in versions, was.version != now.version
    reasons = [_version(was, now)] if another else []
    reasons += [row.reason for row in changed if row.driver]
    if was.driver.version != now.driver.version or (not unknown and versions[0] != versions[1]):
        reasons.append(f"driver {versions[0] or 'of that release'} becomes {versions[1] or 'its own'}")
        change: DriverChange = "settings"
    elif (another and unknown) or any(row.driver == "settings" for row in changed):
        change = "settings"
    else:
        change = "surroundings"
    if reasons:
        restart = operator_restarts.of_driver(change, (was.version, now.version), operator_values(new))
        others = another or any(row.driver and row.others for row in changed)
        yield _everywhere(
            "; ".join(reasons),
            restart.text + ("; the operator's other pods also restart" if others else ""),
            restart.pods,
            old,
            certain=change == "surroundings" or not unknown,
            at_once=restart.at_once,
        )


def driver_version(operator: GpuOperator) -> str | None:
    """The driver that the operator installs; None where no source says what its release brings."""
    if operator.driver.version:
        return operator.driver.version
    release = load_operator_releases().releases.get(operator.version)
    return release.driver if release else None


def _configurations(old: Plan, new: Plan) -> Iterator[NodeEffect]:
    """A changed configuration has another name, so that the daemonset that reads it restarts everywhere."""
    if not old.pools:
        return
    if plugin_config(old) != plugin_config(new):
        yield _everywhere(
            "the device plugin's configuration changes",
            "the device plugin restarts on every GPU node, one at a time; running pods keep "
            f"their GPUs{mps_daemons.but_for_mps(old, new)}, and a node accepts no new GPU pods for a "
            "few seconds",
            "kept",
            old,
        )
    if mig_config(old) and mig_config(old) != mig_config(new):
        yield _everywhere(
            "the list of MIG layouts changes",
            "the MIG manager restarts; nodes with an unchanged label keep their partitions, and nodes that "
            "wait for their replacement may show mig.config.state=failed",
            "kept",
            old,
        )


def _sharing(old: Plan, new: Plan, replaced: frozenset[str]) -> Iterator[NodeEffect]:
    """Another number of slices without another label: the plugin's restart is enough."""
    for was, pool in kept_pools(old, new):
        if was.sharing == pool.sharing or pool.name in replaced:
            continue
        if was.mig_config or pool.mig_config:
            continue  # the label changes, so that this is not a restart
        yield _reshared(was, pool)


def _reshared(old: Pool, new: Pool) -> NodeEffect:
    served = old.sharing.has_daemon or new.sharing.has_daemon
    fewer = sum(new.slices_per_node.values()) < sum(old.slices_per_node.values())
    slices = f"{sum(old.slices_per_node.values())} to {sum(new.slices_per_node.values())}"
    what = f"no node is replaced: the plugin's restart changes each from {slices} slices"
    if fewer:
        what += (
            "; pods beyond the new number keep running, and the node accepts no new ones until "
            "enough have ended"
        )
    if old.sharing.has_daemon:
        what += "; the MPS daemon may restart, and pods that use it may fail with a CUDA error"
    elif served:
        what += "; running pods share the GPU with MPS clients only after they restart"
    return NodeEffect(
        "restarted",
        old.name,
        f"{old.sharing.mode} becomes {new.sharing.mode}"
        if old.sharing.mode != new.sharing.mode
        else "replicas change",
        what,
        nodes_max=old.nodes_max,
        at_once=1,
        pods="killed" if old.sharing.has_daemon else "kept",
        certain=not old.sharing.has_daemon,
        nodes=old.node_names,
    )


def _karpenter(old: Plan, new: Plan) -> Iterator[NodeEffect]:
    was, now = old.karpenter, new.karpenter
    if was is None or now is None:
        return
    if was.install and not now.install:
        yield NodeEffect(
            "stay",
            "",
            "karpenter.install becomes false",
            "the controller's release is removed: nodes stay unchanged, and none is started or removed until "
            "another controller runs",
        )
    elif now.install and (was.version != now.version or was.values != now.values):
        reason = f"karpenter.version goes from {was.version} to {now.version}"
        yield NodeEffect(
            "stay",
            "",
            reason if was.version != now.version else "karpenter.values change",
            "the controller restarts and no node is replaced: if a release computes drift differently, it "
            "first updates the nodes' hashes. No node starts until it is back",
        )
