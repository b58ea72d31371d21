"""What a change does to nodes that exist already: their labels and taints change in place, all at once.

Nothing drains them. A taint that evicts (NoExecute) does so by itself, and a changed MIG layout makes the MIG
manager repartition as soon as it sees the label, which fails while pods use the GPUs (gpu-operator issue
262).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpupool.environment.plan.changes import wording
from gpupool.environment.plan.model import Plan, Pool
from gpupool.review.report.effects.drift import mapping_reasons
from gpupool.review.report.environment_state import EnvironmentState
from gpupool.review.report.model import NodeEffect, PodFate

_GONE = (
    "it gets its own labels and taints back; running pods stay, and the device plugin offers whole GPUs "
    "there again"
)
_LEFT = (
    "it keeps the pool's labels until somebody removes them: GitOps removes nothing from nodes that it does "
    "not own; running pods stay"
)
"""Argo CD and Flux prune no object that only has our fields (`gpupool.generators.deletion_protection`)."""
_BY_GROUP = "nothing changes until their node group sets the labels and taints that gpupool show prints"


@dataclass(frozen=True, slots=True)
class _Group:
    """Nodes that go the same way: from one pool, or none, to one pool, or none."""

    old: Pool | None
    new: Pool | None
    names: tuple[str, ...]
    """Empty for nodes that a selector chooses."""
    most: int


def effects(before: EnvironmentState | None, after: EnvironmentState | None) -> Iterator[NodeEffect]:
    """Effects on named and selected nodes, without counts in words."""
    for group in _groups(before.plan if before else None, after.plan if after else None):
        # Who applies the file takes named nodes back; who will apply it labels those that a selector chooses.
        state = before if group.names else after or before
        node_effect = _effect(group, gone=after is None, gitops=bool(state and state.plan.delivery.gitops))
        if node_effect is not None:
            yield node_effect


def _groups(before: Plan | None, after: Plan | None) -> Iterator[_Group]:
    old = {name: pool for pool in (before.pools if before else ()) for name in pool.node_names}
    new = {name: pool for pool in (after.pools if after else ()) for name in pool.node_names}
    ways: dict[tuple[str, str], list[str]] = {}
    for name in [*new, *(name for name in old if name not in new)]:
        way = (old[name].name if name in old else "", new[name].name if name in new else "")
        ways.setdefault(way, []).append(name)
    for names in ways.values():
        yield _Group(old.get(names[0]), new.get(names[0]), tuple(sorted(names)), len(names))
    yield from _selected(before, after)


def _selected(before: Plan | None, after: Plan | None) -> Iterator[_Group]:
    """Pools that choose their nodes by label: which nodes those are, only the cluster knows."""
    old = {pool.name: pool for pool in (before.pools if before else ()) if pool.node_selector}
    new = {pool.name: pool for pool in (after.pools if after else ()) if pool.node_selector}
    for name in [*new, *(name for name in old if name not in new)]:
        was, now = old.get(name), new.get(name)
        if was and now and was.node_selector != now.node_selector:
            yield _Group(was, None, (), was.nodes_max)
            yield _Group(None, now, (), now.nodes_max)
        else:
            yield _Group(was, now, (), max(pool.nodes_max for pool in (was, now) if pool))


def _effect(group: _Group, gone: bool, gitops: bool) -> NodeEffect | None:
    changes = _differences(group)
    if not changes:
        return None
    there = group.old or group.new
    assert there is not None
    what, pods = _consequences(group, gitops)
    if gone and not gitops:
        what += "; not before the environment is destroyed"
    return NodeEffect(
        "relabelled",
        there.name,
        "; ".join(changes),
        what,
        nodes_max=group.most,
        pods=pods,
        nodes=group.names,
    )


def _differences(group: _Group) -> list[str]:
    old, new = group.old, group.new
    if old is None:
        assert new is not None
        return [f"{_them(group)} join pool {new.name}" if not group.names else f"joins pool {new.name}"]
    if new is None:
        return [f"leaves pool {old.name}" if group.names else f"{_them(group)} leave pool {old.name}"]
    moved = [f"moves from pool {old.name} to {new.name}"] if old.name != new.name else []
    changed = mapping_reasons("label", old.labels, new.labels)
    if old.taints != new.taints:
        changed.append(f"taints change from {_taints(old)} to {_taints(new)}")
    return moved + changed


def _taints(pool: Pool) -> str:
    return ", ".join(map(wording.taint, pool.taints)) or "none"


def _consequences(group: _Group, gitops: bool) -> tuple[str, PodFate]:
    """What follows for what runs there."""
    old, new = group.old, group.new
    if gitops and not group.names:
        return _BY_GROUP, "kept"
    if new is None and gitops:
        return _LEFT, "kept"
    if (old.mig_config if old else None) != (new.mig_config if new else None):
        to = new.mig_config if new and new.mig_config else "no partitions"
        return (
            f"the MIG manager repartitions every GPU to {to} as soon as it sees the label, and fails while a "
            "pod uses one: drain first (gpupool repartition)",
            "evicted",
        )
    evicting = {taint for taint in new.taints if taint.effect == "NoExecute"} if new else set()
    evicting -= set(old.taints) if old else set()
    if evicting:
        keys = ", ".join(sorted(taint.key for taint in evicting))
        return f"pods that do not tolerate {keys} are evicted at once", "evicted"
    sharing = (old.sharing if old else None) != (new.sharing if new else None)
    if new is None:
        return _GONE, "kept"
    plugin = "; the device plugin applies the pool's sharing" if sharing else ""
    return f"running pods stay, new ones see the new labels and taints{plugin}", "kept"


def _them(group: _Group) -> str:
    pool = group.new or group.old
    assert pool is not None
    selector = ",".join(f"{key}={value}" for key, value in sorted(pool.node_selector.items()))
    return f"nodes with {selector}"
