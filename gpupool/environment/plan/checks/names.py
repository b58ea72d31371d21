"""Names: unique where objects would collide, and short enough once other names are made of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpupool.environment.plan.checks.context import CheckContext, PlanProblem
from gpupool.environment.plan.model import SYSTEM_NAMESPACE
from gpupool.environment.plan.pods import BORROWED_CLASS, WARM_CLASS
from gpupool.environment.spec.environment import QUEUED
from gpupool.environment.spec.yaml_source import Loc

POOL_NAME_MAX = 52
"""A pool's longest derived name is `<pool>-spot-xxxxx`, the node claim of its spot NodePool, which is a
label value and host name of at most 63 characters (Karpenter 1.14 appends 6)."""
_CLUSTERS = ("default", SYSTEM_NAMESPACE)
"""Namespaces that are no tenant's and no operator's."""


def is_reserved(namespace: str, operator: str) -> bool:
    """Whether no tenant may have the namespace. `operator` is the GPU Operator's."""
    return namespace in (*_CLUSTERS, operator) or namespace.startswith("kube-")


def file_name(context: CheckContext) -> Iterator[PlanProblem]:
    """The environment, its file and its Pulumi stack have one name."""
    name = context.environment.metadata.name
    if context.file_stem is not None and context.file_stem != name:
        message = f"the file is {context.file_stem}.yaml, but the environment's name is {name!r}"
        yield PlanProblem(("metadata", "name"), message, "use one name for both: it is also the Pulumi stack")


def pool_names(context: CheckContext) -> Iterator[PlanProblem]:
    pools = context.environment.pools
    yield from _twice(context, "pools", "name", [pool.name for pool in pools])
    taken = {pool.name for pool in pools}
    for index, pool in enumerate(pools):
        loc: Loc = ("pools", index, "name")
        if len(pool.name) > POOL_NAME_MAX:
            message = f"{pool.name!r} has {len(pool.name)} characters; names derived from it would exceed 63"
            yield PlanProblem(loc, message, f"use at most {POOL_NAME_MAX}")
        sides = ["spot"] if 0 < pool.nodes.spot_share < 1 else []
        sides += ["reserved"] if pool.nodes.reserved else []
        for side in sides:
            if f"{pool.name}-{side}" in taken:
                own = f"{pool.name}-{side}"
                message = f"the pool's {side} NodePool would be named {own}, which is another pool's name"
                yield PlanProblem(loc, message, "rename one of them")


def tenant_names(context: CheckContext) -> Iterator[PlanProblem]:
    tenants = context.environment.tenants
    yield from _twice(context, "tenants", "name", [tenant.name for tenant in tenants])
    yield from _twice(context, "tenants", "namespace", [tenant.namespace for tenant in tenants])
    for index, tenant in enumerate(tenants):
        if is_reserved(tenant.namespace, context.environment.gpu_operator.namespace):
            message = f"namespace {tenant.namespace!r} belongs to the cluster"
            yield PlanProblem(
                ("tenants", index, "namespace"),
                message,
                f"use a separate namespace, e.g. team-{tenant.name}",
            )


def operator_namespace(context: CheckContext) -> Iterator[PlanProblem]:
    """The operator's accounts may change what policies keep from others, and its pods reach the host: so its
    namespace has no other use. One that gpupool installs is made, and deleted by `destroy`."""
    environment = context.environment
    namespace, delivery = environment.gpu_operator.namespace, environment.delivery
    argocd, flux = delivery.argocd, delivery.flux
    taken = dict.fromkeys((*_CLUSTERS, "kube-public", "kube-node-lease"), "the cluster's")
    taken |= {SYSTEM_NAMESPACE: "gpupool's own"}
    if delivery.engine == "argocd":
        taken[argocd.namespace if argocd else "argocd"] = "Argo CD's"
    if delivery.engine == "flux":
        taken[flux.namespace if flux else "flux-system"] = "Flux's"
    if environment.gpu_operator.install:
        taken["kube-system"] = "the cluster's"
    if namespace in taken:
        message = f"namespace {namespace!r} is {taken[namespace]}, so it can't be the GPU Operator's"
        remediation = (
            "name the namespace that the operator runs in (gpupool doctor finds it), e.g. gpu-operator"
        )
        yield PlanProblem(("gpuOperator", "namespace"), message, remediation)


def priority_names(context: CheckContext) -> Iterator[PlanProblem]:
    priorities = context.environment.priorities
    yield from _twice(context, "priorities", "name", [priority.name for priority in priorities])
    taken = {priority.name for priority in priorities}
    for index, priority in enumerate(priorities):
        if priority.name.startswith("system-"):
            message = f"{priority.name!r} starts with system-, which Kubernetes reserves"
            yield PlanProblem(("priorities", index, "name"), message, "choose another name")
        if priority.name in (WARM_CLASS, BORROWED_CLASS):
            whose = "the pods that keep nodes warm" if priority.name == WARM_CLASS else "borrowed jobs"
            message = f"{priority.name!r} is the priority of {whose}"
            yield PlanProblem(("priorities", index, "name"), message, "choose another name")
        if priority.preempts and f"{priority.name}{QUEUED}" in taken:
            message = (
                f"{priority.name!r} preempts, so the queue's pods get the class {priority.name}{QUEUED}, "
                "which is another priority's name"
            )
            yield PlanProblem(("priorities", index, "name"), message, "rename one of them")


_PLACEHOLDER = re.compile(r"\$\{.*\}|\$\(.*\)|<<.*>>|\{\{.*\}\}|^<.*>$|^\$[A-Za-z_]+$")
"""Placeholders of shells, Terraform and Helm, and of documents."""


def placeholders(context: CheckContext) -> Iterator[PlanProblem]:
    """Names that reach AWS or the kubeconfig as they are: nothing fills them in."""
    cluster, karpenter = context.environment.cluster, context.environment.karpenter
    for loc, value in (
        (("cluster", "region"), cluster.region),
        (("cluster", "kubeContext"), cluster.kube_context),
        (("karpenter", "nodeRole"), karpenter.node_role),
        (("karpenter", "discoveryTag"), karpenter.discovery_tag),
        (("karpenter", "interruptionQueue"), karpenter.interruption_queue),
    ):
        if value is not None and _PLACEHOLDER.search(value):
            yield PlanProblem(loc, f"{value!r} is a placeholder that nothing replaces", "write the value")


def static_nodes(context: CheckContext) -> Iterator[PlanProblem]:
    """One node has one sharing mode, so it is in one pool."""
    owners: dict[str, str] = {}
    selectors: list[tuple[str, dict[str, str]]] = []
    for index, pool in enumerate(context.environment.pools):
        for position, node in enumerate(pool.nodes.names):
            owner = owners.setdefault(node, pool.name)
            loc: Loc = ("pools", index, "nodes", "names", position)
            if owner != pool.name:
                yield PlanProblem(
                    loc, f"node {node!r} is already in pool {owner!r}", "keep it in one of them"
                )
            elif pool.nodes.names.index(node) < position:
                yield PlanProblem(loc, f"node {node!r} is listed twice", "list it once")
        # It is unknown which nodes a selector with a gap chooses.
        chosen = {} if context.gaps.touches(("pools", index, "nodes", "selector")) else pool.nodes.selector
        for other, earlier in selectors if chosen else ():
            if chosen.items() <= earlier.items() or earlier.items() <= chosen.items():
                message = f"the selector matches nodes that pool {other!r} also selects"
                yield PlanProblem(
                    ("pools", index, "nodes", "selector"), message, "add a label that distinguishes them"
                )
        if chosen:
            selectors.append((pool.name, chosen))


def _twice(context: CheckContext, section: str, field: str, values: Sequence[str]) -> Iterator[PlanProblem]:
    first: dict[str, int] = {}
    for index, value in enumerate(values):
        if first.setdefault(value, index) != index:
            place = context.gaps.place((section, first[value]))[-1]
            message = f"{field} {value!r} is already used by {section}[{place}]"
            yield PlanProblem((section, index, field), message, "use a different one for each")
