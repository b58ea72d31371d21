"""Taints are tolerated: by the operator's daemonsets on every pool, by pods on the pool that they name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpupool.plan.model import POOL_LABEL
from gpupool.rules.bundle import Bundle, BundleObject, Pod, Release
from gpupool.rules.fields import at, items, labels, text
from gpupool.rules.operator_configs import Operator, operators
from gpupool.rules.rule import Found

_NFD_TOLERATIONS = ("node-feature-discovery", "worker", "tolerations")


@dataclass(frozen=True, slots=True, eq=False)
class TaintedNodes:
    """Nodes of one NodePool, Node or planned pool, and what keeps pods off them."""

    source: BundleObject | None
    """None where only the Plan knows them."""
    pool: str
    """Value of gpupool.dev/pool, empty without one."""
    taints: tuple[Mapping[str, Any], ...]
    """Without PreferNoSchedule, which does not reliably keep pods off."""

    def __str__(self) -> str:
        return str(self.source) if self.source else f"pool {self.pool}"


def tainted_nodes(bundle: Bundle) -> list[TaintedNodes]:
    """All nodes that the bundle makes, changes or means."""
    found = []
    for pool in bundle.of_kind("NodePool"):
        name = labels(pool.body, "spec", "template", "metadata", "labels").get(POOL_LABEL, "")
        found.append(TaintedNodes(pool, name, _hard(items(pool.body, "spec", "template", "spec", "taints"))))
    for node in bundle.of_kind("Node"):
        name = node.labels.get(POOL_LABEL, "")
        found.append(TaintedNodes(node, name, _hard(items(node.body, "spec", "taints"))))
    for planned in bundle.plan.pools if bundle.plan else ():
        if planned.node_selector:
            taints = _hard([taint.as_dict() for taint in planned.taints])
            found.append(TaintedNodes(None, planned.name, taints))
    return found


def _hard(taints: list[Any]) -> tuple[Mapping[str, Any], ...]:
    return tuple(
        taint for taint in taints if isinstance(taint, Mapping) and at(taint, "effect") != "PreferNoSchedule"
    )


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


def operands(bundle: Bundle) -> Iterator[Found]:
    """Of an operator that others run only some fields are in the bundle, and tolerations are not."""
    nodes = tainted_nodes(bundle)
    for operator in operators(bundle):
        if isinstance(operator.source, BundleObject) and operator.source.patch:
            continue
        yield from _untolerated(operator, ("daemonsets", "tolerations"), nodes)
        # The subchart's own default knows no pool. A ClusterPolicy says nothing about it.
        if isinstance(operator.source, Release):
            yield from _untolerated(operator, _NFD_TOLERATIONS, nodes)


def _untolerated(operator: Operator, path: tuple[str, ...], nodes: list[TaintedNodes]) -> Iterator[Found]:
    tolerations = items(operator.settings, *path)
    reported = set[str]()
    for group in nodes:
        for taint in group.taints:
            name = written(taint)
            if name not in reported and not tolerated(taint, tolerations):
                reported.add(name)
                message = f"taint {name} of {group} is not tolerated, so nothing there finds a GPU"
                yield Found(message, operator.source, ".".join((operator.prefix, *path)), {"taint": name})


def pods(bundle: Bundle) -> Iterator[Found]:
    """A pod that names a pool finds it, and gets onto its nodes."""
    nodes: dict[str, list[TaintedNodes]] = {}
    for group in tainted_nodes(bundle):
        nodes.setdefault(group.pool, []).append(group)
    if not nodes and bundle.plan is None:
        return
    for pod in bundle.pods:
        path, named = _pools(pod)
        unknown = [name for name in named if name not in nodes]
        for name in unknown:
            message = f"there is no pool {name!r}"
            yield Found(message, pod.owner, path, {"pool": name, "pools": sorted(filter(None, nodes))})
        found = [group for name in named for group in nodes.get(name, ())]
        taint = _first(found[0], pod) if found else None
        if taint is not None and all(_first(group, pod) is not None for group in found[1:]):
            name = written(taint)
            message = f"taint {name} of {found[0]} is not tolerated, so the pod never starts there"
            yield Found(message, pod.owner, f"{pod.path}.tolerations", {"taint": name, "pools": list(named)})


def _first(group: TaintedNodes, pod: Pod) -> Mapping[str, Any] | None:
    tolerations = items(pod.spec, "tolerations")
    return next((taint for taint in group.taints if not tolerated(taint, tolerations)), None)


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
