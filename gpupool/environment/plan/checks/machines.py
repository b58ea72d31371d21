"""Machines of clouds: selectors of one thing, disks that EBS makes, kubelets with room for the slices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpupool.environment.plan import cloud_facts
from gpupool.environment.plan.checks.context import CheckContext, PlanProblem
from gpupool.environment.plan.cloud_facts import VolumeFact
from gpupool.environment.plan.model import ENVIRONMENT_LABEL, POOL_LABEL
from gpupool.environment.spec import machines as spec
from gpupool.environment.spec.yaml_source import Loc

_GC_LOW, _GC_HIGH = 80, 85
"""Percent of the disk, where the file says nothing (KubeletConfiguration v1beta1,
imageGC...ThresholdPercent)."""
OWN_TAGS = (ENVIRONMENT_LABEL, POOL_LABEL)
_PLATFORM_TAGS = (
    "eks:eks-cluster-name",
    "karpenter.sh/nodepool",
    "karpenter.sh/nodeclaim",
    "karpenter.k8s.aws/ec2nodeclass",
)


def volumes(context: CheckContext) -> Iterator[PlanProblem]:
    """EBS makes a disk of that type, size and speed."""
    for index, pool in enumerate(context.environment.pools):
        loc: Loc = ("pools", index, "nodes", "rootVolume")
        volume = pool.nodes.root_volume
        fact = cloud_facts.volumes()[volume.type]
        yield from _size(loc, volume, fact)
        yield from _iops(loc, volume, fact)
        yield from _throughput(loc, volume, fact)


def _size(loc: Loc, volume: spec.RootVolume, fact: VolumeFact) -> Iterator[PlanProblem]:
    least, most = fact.size_gib
    if not least <= volume.gib <= most:
        message = f"{volume.type} has {least} to {most} GiB, not {volume.size}"
        yield PlanProblem((*loc, "size"), message, f"correct it, or the type {fact.why}")


def _iops(loc: Loc, volume: spec.RootVolume, fact: VolumeFact) -> Iterator[PlanProblem]:
    if fact.iops is None:
        if volume.iops is not None:
            message = f"the iops of {volume.type} depend on its size"
            yield PlanProblem((*loc, "iops"), message, "remove it, or use type: gp3")
        return
    if volume.iops is None:
        if fact.iops_by_default is None:
            yield PlanProblem(loc, f"a volume of type {volume.type} needs iops", "add iops")
        return
    least, most = fact.iops
    # What every volume has by itself it has at any size.
    most = max(least, min(most, volume.gib * fact.iops_per_gib))
    if not least <= volume.iops <= most:
        message = f"{volume.type} of {volume.size} has {least} to {most} iops, not {volume.iops}"
        yield PlanProblem((*loc, "iops"), message, f"correct it, or the size {fact.why}")


def _throughput(loc: Loc, volume: spec.RootVolume, fact: VolumeFact) -> Iterator[PlanProblem]:
    if volume.throughput is None:
        return
    if fact.throughput is None:
        message = f"a volume of type {volume.type} has no configurable throughput"
        yield PlanProblem((*loc, "throughput"), message, "remove it, or use type: gp3")
        return
    least, most = fact.throughput
    iops = volume.iops or fact.iops_by_default or 0
    most = min(most, int(iops * fact.throughput_per_iops))
    if not least <= volume.throughput <= most:
        message = f"{volume.type} has {least} to {most} MiB per second with {iops} iops"
        yield PlanProblem((*loc, "throughput"), message, f"correct it, or raise iops {fact.why}")


def selectors(context: CheckContext) -> Iterator[PlanProblem]:
    """Each term says in one way what it selects."""
    environment = context.environment
    places: list[tuple[Loc, Sequence[spec.Term]]] = [
        (("karpenter", "subnets"), environment.karpenter.subnets),
        (("karpenter", "securityGroups"), environment.karpenter.security_groups),
    ]
    for index, pool in enumerate(environment.pools):
        nodes: Loc = ("pools", index, "nodes")
        places += [((*nodes, "subnets"), pool.nodes.subnets)]
        places += [((*nodes, "securityGroups"), pool.nodes.security_groups)]
        if pool.nodes.placement_group is not None:
            yield from _one((*nodes, "placementGroup"), pool.nodes.placement_group)
    for loc, terms in places:
        for position, term in enumerate(terms):
            yield from _one((*loc, position), term)


def _one(loc: Loc, term: spec.Term) -> Iterator[PlanProblem]:
    fields = sorted(term.body())
    if len(fields) != 1:
        names = " or ".join(type(term).model_fields)
        message = (
            f"{' and '.join(fields)} can't be combined in one term" if fields else "the term selects nothing"
        )
        yield PlanProblem(loc, message, f"use exactly one of {names}")


def efa(context: CheckContext) -> Iterator[PlanProblem]:
    """Machines have EFA, and jobs that use it can be: those over several nodes, which have whole GPUs."""
    for index, pool in enumerate(context.environment.pools):
        loc: Loc = ("pools", index, "nodes", "efa")
        if not pool.nodes.efa:
            continue
        if context.platform == "local":
            yield PlanProblem(loc, "nodes.efa has no effect on platform local", "remove it")
        if not context.sharing(pool).whole:
            message = f"multi-node jobs need whole GPUs, but the pool shares its GPUs by {pool.sharing.mode}"
            yield PlanProblem(loc, message, "remove it, or use a separate pool for whole GPUs")
        if pool.nodes.warm:
            message = (
                "a warm node has no EFA: Karpenter attaches EFA only when a node starts for a pod "
                "that asks for it"
            )
            yield PlanProblem(loc, message, "remove warm or efa", (loc, ("pools", index, "nodes", "warm")))
        gpu = context.gpu(pool.gpu)
        types = {row.name: row.efa for row in gpu.instance_types} if gpu else {}
        without = [name for name in pool.nodes.instance_types if name in types and not types[name]]
        if without:
            has = [name for name, cards in types.items() if cards]
            message = f"{', '.join(without)} has no known EFA"
            remediation = f"use {' or '.join(has)}, or remove efa" if has else "remove it"
            yield PlanProblem(loc, message, remediation)


def kubelets(context: CheckContext) -> Iterator[PlanProblem]:
    for index, pool in enumerate(context.environment.pools):
        loc: Loc = ("pools", index, "nodes", "kubelet")
        kubelet = pool.nodes.kubelet
        if kubelet is None:
            continue
        low, high = kubelet.image_gc_low_threshold_percent, kubelet.image_gc_high_threshold_percent
        down_to, from_on = _GC_LOW if low is None else low, _GC_HIGH if high is None else high
        if down_to >= from_on:
            message = f"images are removed from {from_on}% disk use down to {down_to}%, which is not lower"
            if low is None:
                remediation = f"use more than {down_to}, or also set imageGCLowThresholdPercent"
                yield PlanProblem((*loc, "imageGCHighThresholdPercent"), message, remediation)
            else:
                yield PlanProblem((*loc, "imageGCLowThresholdPercent"), message, f"use less than {from_on}")
        soft, grace = kubelet.eviction_soft or {}, kubelet.eviction_soft_grace_period or {}
        for signal in sorted(soft.keys() ^ grace.keys()):
            missing = "evictionSoftGracePeriod" if signal in soft else "evictionSoft"
            yield PlanProblem(loc, f"{signal} has no {missing}", "set both for each signal, or neither")
        resolved = context.pools.get(pool.name)
        slices = sum(resolved.slices_per_node.values()) if resolved else 0
        if kubelet.max_pods is not None and kubelet.max_pods < slices:
            message = f"{kubelet.max_pods} pods can't use the {slices} slices of a node"
            yield PlanProblem((*loc, "maxPods"), message, "raise it: system pods count too")


def tags(context: CheckContext) -> Iterator[PlanProblem]:
    """Tags of machines that somebody else sets (EC2NodeClass, rules of `tags`)."""
    for index, pool in enumerate(context.environment.pools):
        for key in pool.nodes.tags:
            owner = "gpupool" if key in OWN_TAGS else "EKS or Karpenter"
            if key in OWN_TAGS or key in _PLATFORM_TAGS or key.startswith("kubernetes.io/cluster"):
                loc: Loc = ("pools", index, "nodes", "tags")
                yield PlanProblem((*loc, key), f"tag {key} is set by {owner}", "remove it", (loc,))
