"""Labels and taints of pools: users can't set those that gpupool or the platform sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpupool.environment.plan.checks.context import CheckContext, PlanProblem
from gpupool.environment.spec.environment import Taint
from gpupool.environment.spec.yaml_source import Loc

_OWNED = {
    "gpupool.dev": "gpupool sets it",
    "nvidia.com": "the GPU Operator reads or sets it, and gpupool derives it from `sharing`",
    "karpenter.sh": "Karpenter sets it",
    "karpenter.k8s.aws": "Karpenter sets it",
    "kubernetes.io": "Kubernetes sets it",
    "k8s.io": "Kubernetes sets it",
}
_TAINT_EXCEPTIONS = ("nvidia.com/gpu", "kubernetes.io/arch")
"""The taint that the GPU Operator tolerates by default and many sites use (gpu-operator v26.7.0 values), and
the one by which sites keep pods off machines of another architecture."""
_NOT_FROM_THE_START = ("gpupool.dev", "karpenter.sh", "karpenter.k8s.aws")
"""Domains whose taints stay on a node that has joined, if a pool adds one."""
_LABEL_EXCEPTION = "node.kubernetes.io"
"""The domain of Kubernetes in which a kubelet may label its node as its site likes (Kubernetes, kubelet
reference, --node-labels); Karpenter 1.14.1 restricts karpenter.sh alone."""
_SET_BY_KUBERNETES = ("node.kubernetes.io/instance-type", "node.kubernetes.io/windows-build")

_NODE_POOL_LABELS = 100
"""Labels of a NodePool's nodes (Karpenter 1.14.1, karpenter.sh_nodepools.yaml, maxProperties)."""


def labels(context: CheckContext) -> Iterator[PlanProblem]:
    for index, pool in enumerate(context.environment.pools):
        for key in pool.labels:
            reason = None if may_label(key) else _owner(key)
            if reason:
                message = f"label {key!r} can't be set by a pool: {reason}"
                loc: Loc = ("pools", index, "labels")
                yield PlanProblem((*loc, key), message, "remove it, or use your own key", (loc,))
        resolved = context.pools.get(pool.name) if context.platform in ("eks", "local") else None
        every, given = len(resolved.labels if resolved else ()), len(pool.labels)
        if every > _NODE_POOL_LABELS:
            message = (
                f"{given} labels are too many: a NodePool allows {_NODE_POOL_LABELS}, and gpupool "
                f"sets {every - given} of them"
            )
            remediation = f"leave out {every - _NODE_POOL_LABELS}"
            yield PlanProblem(("pools", index, "labels"), message, remediation)


def taints(context: CheckContext) -> Iterator[PlanProblem]:
    """Karpenter starts no nodes for a pool that has one taint twice, be it in one of its lists or in both."""
    for index, pool in enumerate(context.environment.pools):
        seen: set[tuple[str, str]] = set()
        first: Loc = ("pools", index, "nodes", "startupTaints")
        rows: list[tuple[Loc, Taint, Callable[[str], str | None]]] = [
            (("pools", index, "taints", at), taint, _taints_owner)
            for at, taint in enumerate(pool.taints or ())
        ]
        rows += [
            ((*first, at), taint, _first_taints_owner) for at, taint in enumerate(pool.nodes.startup_taints)
        ]
        for loc, taint, owner in rows:
            if reason := owner(taint.key):
                message = f"taint {taint.key!r} can't be set by a pool: {reason}"
                remediation = "use your own key"
                if owner is _taints_owner:
                    remediation = (
                        f"remove `taints` to get gpupool.dev/pool=<name>:NoSchedule, or {remediation}"
                    )
                yield PlanProblem((*loc, "key"), message, remediation)
            if context.gaps.covers((*loc, "effect")):
                continue
            if (taint.key, taint.effect) in seen:
                message = f"taint {taint.key}:{taint.effect} appears twice; a node can have only one value"
                yield PlanProblem(loc, message, "remove one of them", ((*loc, "key"), (*loc, "effect")))
            seen.add((taint.key, taint.effect))


def _taints_owner(key: str) -> str | None:
    return None if key in _TAINT_EXCEPTIONS else _owner(key)


def _first_taints_owner(key: str) -> str | None:
    """Others take their taints off a node that has joined, Kubernetes' own among them; these stay."""
    return _OWNED[domain] if (domain := key.partition("/")[0]) in _NOT_FROM_THE_START else None


def may_label(key: str) -> bool:
    """Whether a label in a domain of Kubernetes is for users to set."""
    domain = key.partition("/")[0]
    return domain == _LABEL_EXCEPTION and key not in _SET_BY_KUBERNETES


def _owner(key: str) -> str | None:
    domain = key.partition("/")[0] if "/" in key else ""
    for owned, reason in _OWNED.items():
        if domain == owned or domain.endswith(f".{owned}"):
            return reason
    return None
