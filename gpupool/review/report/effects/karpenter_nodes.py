"""What a change does to the nodes that Karpenter starts: replaced, deleted, newly started, or left alone.

Compares the NodePools and node classes of both states by Karpenter's rule
(`gpupool.review.report.effects.drift`). A NodePool is known by its name, so a pool under another name is
another one: its nodes are not carried over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpupool.environment.plan.changes import wording
from gpupool.environment.plan.changes.pools import renamed_pools
from gpupool.environment.plan.model import Capacity, Pool
from gpupool.generators.kinds import NODE_CLASSES
from gpupool.review.report.effects.drift import NodeReplacement, node_class_drifts, node_pool_drifts
from gpupool.review.report.environment_state import EnvironmentState
from gpupool.review.report.model import NodeEffect

Pair = tuple[Pool, Capacity]


def effects(before: EnvironmentState | None, after: EnvironmentState | None) -> Iterator[NodeEffect]:
    """Effects on every NodePool of both states, without counts in words."""
    old, new = _capacities(before), _capacities(after)
    for name, (pool, capacity) in old.items():
        if name not in new:
            assert before is not None
            yield _deleted(pool, capacity, before, after)
    if before is not None and after is not None:
        drifts = _all_drifts(before, after)
        for name in new:
            if name in old and drifts.get(name):
                yield _replaced(old[name], new[name], drifts[name])
        for name in new:
            if name in old:
                yield from _lowered(old[name], new[name])
    yield from _warm(before, after)
    yield from _cluster_version(before, after)


def drifting(before: EnvironmentState | None, after: EnvironmentState | None) -> frozenset[str]:
    """Pools of the state after, some of whose nodes are or may be replaced."""
    if before is None or after is None:
        return frozenset()
    pools = {capacity.name: pool.name for pool in after.plan.pools for capacity in pool.capacities}
    return frozenset(pools[name] for name, found in _all_drifts(before, after).items() if found)


def leaving(
    node_pool: str, labels: Mapping[str, str], before: EnvironmentState, after: EnvironmentState
) -> bool:
    """Whether a live node of the NodePool, with these labels, is or may be replaced."""
    drifts = _all_drifts(before, after).get(node_pool, [])
    if any(drift.which != "some" for drift in drifts):
        return True
    body = _bodies(after, ("NodePool",))[("NodePool", node_pool)]
    wanted = body["spec"]["template"]["spec"]["requirements"]
    return any(labels.get(each["key"], each["values"][0]) not in each["values"] for each in wanted)


def _capacities(state: EnvironmentState | None) -> dict[str, Pair]:
    pools = state.plan.pools if state else ()
    return {capacity.name: (pool, capacity) for pool in pools for capacity in pool.capacities}


def _bodies(state: EnvironmentState, kinds: tuple[str, ...]) -> dict[tuple[str, str], Any]:
    return {
        (manifest.kind, manifest.name): manifest.body for manifest in state.bundle if manifest.kind in kinds
    }


def _all_drifts(before: EnvironmentState, after: EnvironmentState) -> dict[str, list[NodeReplacement]]:
    """NodePool -> why nodes of it are replaced."""
    old_classes, new_classes = _bodies(before, NODE_CLASSES), _bodies(after, NODE_CLASSES)
    old_pools, new_pools = _bodies(before, ("NodePool",)), _bodies(after, ("NodePool",))
    found: dict[str, list[NodeReplacement]] = {}
    for key, new in new_pools.items():
        old = old_pools.get(key)
        if old is None:
            continue
        reference = new["spec"]["template"]["spec"]["nodeClassRef"]
        where = (reference["kind"], reference["name"])
        drifts = node_pool_drifts(old, new)
        # The local cluster's class has no hash and selects nothing (Karpenter v1.14.1, kwok/cloudprovider).
        if where[0] == "EC2NodeClass" and where in old_classes and where in new_classes:
            drifts += node_class_drifts(old_classes[where], new_classes[where])
        found[key[1]] = drifts
    return found


def _replaced(old: Pair, new: Pair, drifts: list[NodeReplacement]) -> NodeEffect:
    pool, capacity = old
    everything = any(drift.which == "all" for drift in drifts)
    certain = any(drift.which != "unknown" for drift in drifts)
    only = () if everything else tuple(dict.fromkeys(drift.only for drift in drifts if drift.only))
    return NodeEffect(
        "replaced",
        pool.name,
        "; ".join(drift.reason for drift in drifts),
        "",
        only=only,
        node_pool=capacity.name,
        nodes_max=capacity.max_nodes,
        at_once=new[0].max_unavailable,
        window=wording.window(new[0].window),
        pods="evicted",
        certain=certain,
    )


def _new_name(name: str, before: EnvironmentState, after: EnvironmentState) -> str:
    """What a pool that is gone is called now, where it was but renamed."""
    old, new = ({pool.name: pool for pool in state.plan.pools} for state in (before, after))
    return "".join(now for now, was in renamed_pools(old, new).items() if was == name)


def _deleted(
    pool: Pool, capacity: Capacity, before: EnvironmentState, after: EnvironmentState | None
) -> NodeEffect:
    names = {each.name: each for each in after.plan.pools} if after else {}
    if after is None:
        reason = "the environment is removed"
        what = "only when its objects are deleted, by gpupool destroy with the old file or by GitOps pruning"
    elif pool.name in names:
        reason = (
            f"{wording.spot(names[pool.name])} leaves no {capacity.type} nodes of the pool under this name"
        )
        what = "the pool's other nodes run them"
    else:
        renamed = _new_name(pool.name, before, after)
        reason = f"the pool is renamed to {renamed}" if renamed else "the pool is removed"
        what = "jobs that name the pool no longer find a node"
    # What is in the cluster now was annotated by the state before.
    delivery = before.plan.delivery
    if delivery.on_removal != "delete":
        left = f"{delivery.engine} keeps NodePool {capacity.name} and its nodes until it is deleted manually"
        if after is not None and pool.name not in names:
            until = " until its MPS daemon restarts" if pool.sharing.has_daemon else ""
            left += (
                f", but removes the configuration that its nodes refer to: running pods stay{until}, and new "
                "pods get no GPU there after the device plugin restarts"
            )
        return NodeEffect("stay", pool.name, reason, left, capacity.name)
    return NodeEffect(
        "deleted",
        pool.name,
        reason,
        what,
        node_pool=capacity.name,
        nodes_max=capacity.max_nodes,
        pods="evicted",
    )


def _lowered(old: Pair, new: Pair) -> Iterator[NodeEffect]:
    alike = old[0].one_size and new[0].one_size
    was, now = (capacity.max_nodes if alike else capacity.max_gpus for capacity in (old[1], new[1]))
    counted = "nodes" if alike else "GPUs"
    if now < was:
        yield NodeEffect(
            "stay",
            old[0].name,
            f"maximum of NodePool {new[1].name} goes from {was} to {now}{'' if alike else ' GPUs'}",
            f"no node is removed because of it: {counted} above {now} stay until they are empty, and none "
            f"starts while there are {now} or more",
            new[1].name,
        )


def _cluster_version(before: EnvironmentState | None, after: EnvironmentState | None) -> Iterator[NodeEffect]:
    """AWS' images of an alias are those of the cluster's version (AWS provider v1.14.1,
    pkg/providers/amifamily), and gpupool does not upgrade the cluster."""
    if before is None or after is None or after.plan.cluster.platform != "eks":
        return
    was, now = before.plan.cluster.kubernetes_version, after.plan.cluster.kubernetes_version
    aliased = [pool.name for pool in after.plan.pools if pool.image is None]
    if was != now and aliased:
        yield NodeEffect(
            "stay",
            "",
            f"cluster.kubernetesVersion goes from {was} to {now}",
            "gpupool does not upgrade clusters, so no node is replaced now; after the upgrade of the "
            "cluster, karpenter.amiAlias refers to other images, and Karpenter replaces the nodes of "
            f"{', '.join(aliased)}",
        )


def _warm(before: EnvironmentState | None, after: EnvironmentState | None) -> Iterator[NodeEffect]:
    old = {pool.name: pool.warm for pool in before.plan.pools} if before else {}
    for pool in after.plan.pools if after else ():
        more = pool.warm - old.get(pool.name, 0)
        if more > 0:
            yield NodeEffect(
                "started",
                pool.name,
                f"nodes.warm goes from {old.get(pool.name, 0)} to {pool.warm}",
                f"{'it costs' if more == 1 else 'they cost'} money from then on, used or not",
                nodes_max=more,
            )
        elif more < 0:
            yield NodeEffect(
                "stay",
                pool.name,
                f"nodes.warm goes from {old[pool.name]} to {pool.warm}",
                f"empty nodes are removed {pool.consolidate_after} after their last pod"
                if pool.consolidate_after != "Never"
                else "consolidateAfter is Never, so empty nodes stay anyway",
            )
