"""Taints are tolerated: by the operator's daemonsets on every pool, by pods on the pool that they name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpupool.environment.plan.model import POOL_LABEL
from gpupool.policy.rules.bundle import BundleObject, JudgedRelease, Nodes, ObjectSet, Pod
from gpupool.policy.rules.fields import at, items, labels, text
from gpupool.policy.rules.operator_configs import Operator, operators
from gpupool.policy.rules.rule import RuleViolation

_NFD_TOLERATIONS = ("node-feature-discovery", "worker", "tolerations")


def _untolerated(nodes: Nodes, tolerations: list[Any]) -> Iterator[Mapping[str, Any]]:
    """The taints that keep a pod off; PreferNoSchedule does not reliably do so."""
    for taint in nodes.taints:
        hard = isinstance(taint, Mapping) and at(taint, "effect") != "PreferNoSchedule"
        if hard and not tolerated(taint, tolerations):
            yield taint


def tolerated(taint: Mapping[str, Any], tolerations: list[Any]) -> bool:
    """Whether one of `tolerations` matches: key or, with Exists, any key; the same value with Equal, which
    is the default; the same effect or any (Kubernetes 1.36, taints and tolerations)."""
    for toleration in tolerations:
        key, effect = text(toleration, "key"), text(toleration, "effect")
        if effect and effect != text(taint, "effect"):
            continue
        exists = text(toleration, "operator") == "Exists"
        if not key and exists:
            return True
        equal = text(toleration, "operator") in ("", "Equal")
        same = equal and text(toleration, "value") == text(taint, "value")
        if key and key == text(taint, "key") and (exists or same):
            return True
    return False


def written(taint: Mapping[str, Any]) -> str:
    """The taint as kubectl writes it."""
    value = f"={text(taint, 'value')}" if text(taint, "value") else ""
    return f"{text(taint, 'key')}{value}:{text(taint, 'effect')}"


def operands(bundle: ObjectSet) -> Iterator[RuleViolation]:
    """Of an operator that others run only some fields are in the bundle, and tolerations are not."""
    for operator in operators(bundle):
        if isinstance(operator.source, BundleObject) and operator.source.patch:
            continue
        yield from _operand(operator, ("daemonsets", "tolerations"), bundle.nodes)
        # The subchart's own default knows no pool. A ClusterPolicy says nothing about it.
        if isinstance(operator.source, JudgedRelease):
            yield from _operand(operator, _NFD_TOLERATIONS, bundle.nodes)


def _operand(operator: Operator, path: tuple[str, ...], nodes: list[Nodes]) -> Iterator[RuleViolation]:
    reported = set[str]()
    for group in nodes:
        for taint in _untolerated(group, items(operator.settings, *path)):
            name = written(taint)
            if name not in reported:
                reported.add(name)
                message = f"taint {name} of {group} is not tolerated, so no pod there can use a GPU"
                yield RuleViolation(
                    message, operator.source, ".".join((operator.prefix, *path)), {"taint": name}
                )


def pods(bundle: ObjectSet) -> Iterator[RuleViolation]:
    """A pod that names a pool finds it, and gets onto its nodes."""
    nodes: dict[str, list[Nodes]] = {}
    for group in bundle.nodes:
        nodes.setdefault(group.pool, []).append(group)
    if not nodes and bundle.plan is None:
        return
    for pod in bundle.pods:
        path, named = _pools(pod)
        unknown = [name for name in named if name not in nodes]
        for name in unknown:
            message = f"there is no pool {name!r}"
            yield RuleViolation(
                message, pod.owner, path, {"pool": name, "pools": sorted(filter(None, nodes))}
            )
        groups = [group for name in named for group in nodes.get(name, ())]
        tolerations = items(pod.spec, "tolerations")
        taints = [next(_untolerated(group, tolerations), None) for group in groups]
        if taints and taints[0] is not None and None not in taints:
            name = written(taints[0])
            message = f"taint {name} of {groups[0]} is not tolerated, so the pod never starts there"
            yield RuleViolation(
                message, pod.owner, f"{pod.path}.tolerations", {"taint": name, "pools": list(named)}
            )


def _pools(pod: Pod) -> tuple[str, tuple[str, ...]]:
    """Where the pod names pools, and which: any of them will do."""
    name = labels(pod.spec, "nodeSelector").get(POOL_LABEL)
    if name is not None:
        return f"{pod.path}.nodeSelector[{POOL_LABEL}]", (name,)
    path = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    found = [
        str(value)
        for term in items(pod.spec, *path)
        for row in items(term, "matchExpressions")
        if text(row, "key") == POOL_LABEL and text(row, "operator") == "In"
        for value in items(row, "values")
    ]
    return ".".join((pod.path, *path)), tuple(dict.fromkeys(found))
