"""What a reviewer must not miss where Argo CD or Flux applies: what they leave behind, what they stop
keeping, and which tool manages the objects. Registered in `gpupool.review.report.risks`.

What is in the cluster now was annotated by the state before, so that state's `onRemoval` counts.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.environment.plan.model import Plan, Pool
from gpupool.environment.sharing import GPU_RESOURCE
from gpupool.generators.gpu_operator import operand_tolerations
from gpupool.review.report.model import Risk, risk


def left_behind(old: Plan, new: Plan) -> Iterator[Risk]:
    """Pools that go from the file while their nodes stay: nothing that those nodes need stays with them."""
    if not old.delivery.gitops:
        return
    there = {pool.name for pool in new.pools}
    members = {name for pool in new.pools for name in pool.node_names}
    for pool in old.pools:
        if pool.name in there:
            continue
        if pool.capacities and old.delivery.on_removal != "delete":
            yield risk("left", _kept(pool, old, new), "danger")
        orphans = sorted(set(pool.node_names) - members)
        if orphans:
            yield risk("left", _still_labelled(pool, orphans, old), "danger")


def _kept(pool: Pool, old: Plan, new: Plan) -> str:
    engine = old.delivery.by.title
    names = " ".join(capacity.name for capacity in pool.capacities)
    return (
        f"{engine} keeps pool {pool.name} until somebody deletes it, but {_gone(pool, old, new)} "
        "are removed immediately: its nodes refer to a missing configuration, so the device plugin does "
        "not restart on them and they offer no GPUs. Either drain its nodes before the merge and run "
        f"kubectl delete nodepool {names} right after it, or let the removal delete it: "
        "delivery.onRemoval: delete, in a change before this one"
    )


def _gone(pool: Pool, old: Plan, new: Plan) -> str:
    """What the rendering loses with the pool, as far as others do not need it too."""
    gone = ["its configuration of the device plugin"]
    if pool.mig_config and all(pool.mig_config != other.mig_config for other in new.pools):
        gone.append(f"its MIG layout {pool.mig_config}")
    if pool.slices_per_node != {GPU_RESOURCE: pool.gpus_per_node}:
        gone.append("its NodeOverlay")
    tolerated = operand_tolerations(new)
    if old.gpu_operator.install and not all(taint.tolerated_by(tolerated) for taint in pool.taints):
        gone.append("the operator's tolerations of its taints")
    if len(gone) == 1:
        return f"{gone[0]} and its other objects"
    return f"{', '.join(gone[:-1])} and {gone[-1]}"


def _still_labelled(pool: Pool, nodes: list[str], old: Plan) -> str:
    several = len(nodes) > 1
    return (
        f"{old.delivery.by.title} removes no labels from nodes: {', '.join(nodes)} "
        f"{'keep' if several else 'keeps'} the labels of pool {pool.name}, whose device-plugin "
        "configuration is removed, so the plugin does not restart there. Drain first, and remove "
        "nvidia.com/device-plugin.config and the pool's other labels manually"
    )


def removal(old: Plan, new: Plan) -> Iterator[Risk]:
    """What a removal will take with it from now on."""
    was, now = old.delivery, new.delivery
    if now.gitops and was.gitops and was.on_removal != "delete" == now.on_removal:
        yield risk(
            "removal",
            f"delivery.onRemoval changes from {was.on_removal} to delete: {now.by.title} then "
            "deletes pools with their nodes, and tenants' namespaces with their contents, as soon as "
            "they are removed from the file",
        )


def engine(old: Plan, new: Plan) -> Iterator[Risk]:
    """Another engine: the previous one goes on managing the same objects until it is reconfigured."""
    if old.delivery.engine == new.delivery.engine:
        return
    was, now = old.delivery.by.title, new.delivery.by.title
    if not old.delivery.gitops:
        left = (
            f"Pulumi still has every object in its state, and a destroy would delete them. Once {now} has "
            "synced and gpupool assert finds nothing, make Pulumi forget: pulumi stack rm "
            f"{old.environment} --force (docs/delivery.md)"
        )
    elif not new.delivery.gitops:
        left = f"suspend {was} first, and import existing objects: up takes over nothing without being asked"
    else:
        left = f"suspend {was} before {now} starts, or each reverts the other's changes"
    yield risk("delivery", f"delivery.engine goes from {was} to {now}: {left}")
