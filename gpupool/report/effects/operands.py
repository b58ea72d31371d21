"""What a change does to what NVIDIA's operator and Karpenter themselves run on nodes: restarts, driver
upgrades.

Sources: GPU Operator v26.7.0 chart values (daemonsets.rollingUpdate, driver.upgradePolicy) and its pull
request 2527 (the driver is restarted in place where its own settings are the same); k8s-device-plugin
v0.20.0. No pool's maintenance window or maxUnavailable holds for any of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpupool.generators.device_plugin import config_map_name as plugin_config
from gpupool.generators.mig_parted import config_map_name as mig_config
from gpupool.plan.model import Plan, Pool
from gpupool.plan.operator_releases import load_operator_releases, version_key
from gpupool.report.effects import mps_daemons
from gpupool.report.environment_state import EnvironmentState, kept_pools
from gpupool.report.model import NodeEffect, PodFate
from gpupool.spec.environment import GpuOperator
from gpupool.spec.yaml_source import value_at

_IN_PLACE = (26, 7, 0)
"""Release from which a driver pod restarts in place where only its surroundings changed (pull request 2527).
"""

_SWITCHED: Mapping[tuple[str, bool], str] = {
    ("install", True): "the operator is installed; one that others installed must be gone before",
    ("install", False): "the operator's release is removed: its device plugin, MIG manager and driver leave "
    "every GPU node, and no pod gets a GPU until another operator runs",
    (
        "driver.enabled",
        True,
    ): "the operator installs the driver on nodes whose image has none, and leaves the others alone",
    (
        "driver.enabled",
        False,
    ): "the operator's driver leaves every GPU node; where the image brings none, GPUs "
    "are gone until the node is replaced",
}
"""What happens where a setting of `gpuOperator` is switched on or off."""


def effects(
    before: EnvironmentState | None, after: EnvironmentState | None, replaced: frozenset[str]
) -> Iterator[NodeEffect]:
    """Effects on all GPU nodes, and on pools whose sharing changes without a new node; `replaced` are pools
    that get new nodes anyway."""
    if before is None or after is None:
        return
    old, new = before.plan, after.plan
    yield from _operator(old, new)
    yield from _configurations(old, new)
    reshared = list(_sharing(old, new, replaced))
    yield from reshared
    yield from mps_daemons.effects(old, new, frozenset(each.pool for each in reshared))
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


def _operator(old: Plan, new: Plan) -> Iterator[NodeEffect]:
    was, now = old.gpu_operator, new.gpu_operator
    if was.install != now.install:
        yield _switched("install", now.install, old)
        return
    if not now.install:
        return
    if was.driver.enabled != now.driver.enabled:
        yield _switched("driver.enabled", now.driver.enabled, old)
    elif now.driver.enabled:
        yield from _driver(old, new)
    elif reasons := mps_daemons.operator_reasons(old, new):
        yield _everywhere(reasons[0], _daemonsets(old, new), "kept", old)
    if was.values != now.values:
        yield _everywhere(
            f"gpuOperator.values change ({', '.join(_changed_keys(was.values, now.values))})",
            "which of the operator's pods restart depends on the values; a changed toolkit restarts the "
            "container runtime",
            "kept",
            old,
            certain=False,
        )


def _daemonsets(old: Plan, new: Plan) -> str:
    return (
        "the operator's pods restart on every GPU node, one node after the other; running pods stay"
        f"{mps_daemons.but_for_mps(old, new)}, new ones wait until the node's device plugin is back"
    )


def _switched(setting: str, on: bool, plan: Plan) -> NodeEffect:
    """The operator, or its driver, comes or goes."""
    what = _SWITCHED[setting, on]
    reason = f"gpuOperator.{setting} becomes {str(on).lower()}"
    if on:
        return _everywhere(reason, what, "kept", plan, certain=False)
    return _everywhere(reason, what, "killed", plan, certain=False, at_once=None)


def _driver(old: Plan, new: Plan) -> Iterator[NodeEffect]:
    """The driver's pods, which nothing but the operator's upgrade controller replaces, node by node."""
    was, now = old.gpu_operator, new.gpu_operator
    versions = driver_version(was), driver_version(now)
    at_once = _parallel(now.values)
    around = mps_daemons.operator_reasons(old, new)
    reasons = around[:1] if was.version != now.version else []
    if was.driver.version != now.driver.version or (None not in versions and versions[0] != versions[1]):
        reasons.append(f"driver {versions[0] or 'of that release'} becomes {versions[1] or 'its own'}")
    if len(reasons) > 1 or (reasons and was.version == now.version) or (reasons and None in versions):
        yield _everywhere(
            "; ".join(reasons),
            f"the operator upgrades the driver on every GPU node, {at_once} at a time: it cordons the node, "
            "deletes the pods that use its GPUs, loads the driver and uncordons",
            "evicted",
            old,
            certain=None not in versions,
            at_once=at_once,
        )
    elif around:
        yield _same_driver(old, new, around[0])


def _same_driver(old: Plan, new: Plan, reason: str) -> NodeEffect:
    """The driver stays, and what is around it in its pods changes."""
    was, now = old.gpu_operator, new.gpu_operator
    at_once = _parallel(now.values)
    if min(version_key(was.version), version_key(now.version)) >= _IN_PLACE:
        return _everywhere(
            reason,
            f"the driver's settings are the same, so its pod restarts in place, {at_once} node at a time, "
            "cordoned for that time; running pods stay",
            "kept",
            old,
            at_once=at_once,
        )
    return _everywhere(
        reason,
        f"releases before v26.7.0 take any change for a driver upgrade: {at_once} node at a time is "
        "cordoned and the pods that use its GPUs are deleted",
        "evicted",
        old,
        certain=False,
        at_once=at_once,
    )


def driver_version(operator: GpuOperator) -> str | None:
    """The driver that the operator installs; None where no source says what its release brings."""
    if operator.driver.version:
        return operator.driver.version
    release = load_operator_releases().releases.get(operator.version)
    return release.driver if release else None


def _parallel(values: Mapping[str, Any]) -> int:
    """`driver.upgradePolicy.maxParallelUpgrades`; 1 is the chart's default."""
    found = value_at(values, ("driver", "upgradePolicy", "maxParallelUpgrades"))
    return found if isinstance(found, int) and found > 0 else 1


def _changed_keys(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    return [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]


def _configurations(old: Plan, new: Plan) -> Iterator[NodeEffect]:
    """A changed configuration has another name, so that the daemonset that reads it restarts everywhere."""
    if not old.pools:
        return
    if plugin_config(old) != plugin_config(new):
        yield _everywhere(
            "the device plugin's configuration changes",
            "the device plugin restarts on every GPU node, one after the other; running pods keep their "
            f"GPUs{mps_daemons.but_for_mps(old, new)}, a node takes no new ones for the seconds "
            "until it is back",
            "kept",
            old,
        )
    if mig_config(old) and mig_config(old) != mig_config(new):
        yield _everywhere(
            "the list of MIG layouts changes",
            "the MIG manager restarts; nodes whose label stays keep their partitions, and those that wait "
            "for their replacement may show mig.config.state=failed until then",
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
    what = f"no node is replaced: the plugin's restart takes each from {slices} slices"
    if fewer:
        what += "; pods beyond the new number run on, and the node takes none until so many have ended"
    if old.sharing.has_daemon:
        what += "; the MPS daemon may restart, and pods that compute through it may fail with a CUDA error"
    elif served:
        what += "; pods that run already share the GPU with MPS clients only when they start again"
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
            "the controller's release is removed: nodes stay as they are, and none comes or goes until "
            "another controller runs",
        )
    elif now.install and (was.version != now.version or was.values != now.values):
        reason = f"karpenter.version goes from {was.version} to {now.version}"
        yield NodeEffect(
            "stay",
            "",
            reason if was.version != now.version else "karpenter.values change",
            "the controller restarts and no node goes: where a release counts drift otherwise, it counts the "
            "nodes again first. None is started until it is back",
        )
