"""Selectors of nodes that exist: they find none of those that Karpenter starts, which come and go without
it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpupool.environment.plan.checks.context import CheckContext, PlanProblem
from gpupool.environment.spec import environment as spec
from gpupool.environment.spec.yaml_source import Loc

_KARPENTERS = ("karpenter.sh", "karpenter.k8s.aws", "gpupool.dev")
"""Prefixes of labels that only nodes of Karpenter's have."""
_ZONE, _PRODUCT = "topology.kubernetes.io/zone", "nvidia.com/gpu.product"
_ANY_MACHINE = frozenset(
    {
        *("beta.kubernetes.io", "failure-domain.beta.kubernetes.io", "topology.kubernetes.io"),
        *("topology.k8s.aws", "topology.ebs.csi.aws.com", "nvidia.com", "feature.node.kubernetes.io"),
    }
)
"""Prefixes of labels that say what a machine is, where it stands and what is in it, not whose it is: those
of the kubelet, of AWS's controllers, and of GPU and Node Feature Discovery."""


def selectors(context: CheckContext) -> Iterator[PlanProblem]:
    pools = context.environment.pools
    bought = [pool for pool in pools if context.buys(pool)]
    for index, pool in enumerate(pools):
        loc: Loc = ("pools", index, "nodes", "selector")
        theirs = sorted(key for key in pool.nodes.selector if key.partition("/")[0] in _KARPENTERS)
        if theirs:
            message = f"the label {theirs[0]} is on nodes that Karpenter starts, which must not be selected"
            remediation = "use a label of the node group, or describe the pool by instanceTypes"
            yield PlanProblem(loc, message, remediation)
            continue
        known = pool.nodes.selector and not context.gaps.touches(loc)
        for other in bought if known else ():
            if _may_find(pool.nodes.selector, _labels(context, other)):
                message = f"nodes that Karpenter starts for pool {other.name!r} can have these labels too"
                yield PlanProblem(loc, message, "select by a label that only the node group has")


def _labels(context: CheckContext, pool: spec.Pool) -> dict[str, set[str]]:
    """Label -> its possible values on nodes that Karpenter starts for `pool`, as far as the file says."""
    gpu, nodes, region = context.gpu(pool.gpu), pool.nodes, context.environment.cluster.region
    machines = (
        [machine for machine in gpu.instance_types if machine.name in nodes.instance_types] if gpu else ()
    )
    labels = {
        "node.kubernetes.io/instance-type": {*nodes.instance_types},
        "kubernetes.io/os": {"linux"},
        "kubernetes.io/arch": {machine.arch for machine in machines},
        "topology.kubernetes.io/region": {region} if region else set(),
        _ZONE: {*nodes.zones},
        _PRODUCT: {*gpu.product_labels} if gpu else set(),
    }
    return {key: values for key, values in labels.items() if values} | {
        key: {value} for key, value in pool.labels.items()
    }


def _may_find(selector: Mapping[str, str], labels: Mapping[str, set[str]]) -> bool:
    return all(
        # GPU Feature Discovery adds suffixes for sharing and MIG.
        any(value == known or (key == _PRODUCT and value.startswith(f"{known}-")) for known in labels[key])
        if key in labels
        else key.partition("/")[0] in _ANY_MACHINE
        for key, value in selector.items()
    )
