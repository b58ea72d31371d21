"""What a cluster adds to a report: how many nodes there are now, what runs on those that are touched, who
uses more than the new quota gives.

Two list requests for a cluster, nodes and pods, whatever it holds. Reads only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from gpupool.cluster.kube_api import KubeApi
from gpupool.cluster.live_objects import ended, requested
from gpupool.cluster.snapshot import ALL_PODS, NODEPOOL_LABEL, NODES, Snapshot, labels, notes, take
from gpupool.plan.changes.wording import counts
from gpupool.plan.model import Plan
from gpupool.plan.tenants import Tenant
from gpupool.report.effects.karpenter_nodes import leaving
from gpupool.report.environment_state import EnvironmentState
from gpupool.report.model import LiveState, NodeEffect, PodAtRisk, PoolNodes, TenantUse

DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"


def take_snapshot(api: KubeApi, now: datetime | None = None) -> Snapshot:
    """The cluster's nodes and pods. Raises GpupoolError where it can't be asked."""
    return take(api, (NODES, ALL_PODS), now)


def with_cluster(
    effects: Sequence[NodeEffect],
    snapshot: Snapshot,
    before: EnvironmentState | None,
    after: EnvironmentState | None,
) -> tuple[NodeEffect, ...]:
    """`effects` with the nodes that they touch now and the pods with GPUs there."""
    tenants = _tenants(before, after)
    return tuple(_seen(effect, snapshot, tenants, before, after) for effect in effects)


def live_state(
    snapshot: Snapshot, before: EnvironmentState | None, after: EnvironmentState | None
) -> LiveState:
    """Nodes by pool, and tenants that use more now than the change leaves."""
    plans = [state.plan for state in (after, before) if state is not None]
    pools = dict.fromkeys(pool.name for plan in plans for pool in plan.pools)
    return LiveState(
        cluster=plans[-1].cluster.name,
        nodes=tuple(PoolNodes(pool, len(snapshot.nodes_of(pool))) for pool in pools),
        over_quota=tuple(_over_quota(snapshot, before, after)),
    )


def _tenants(before: EnvironmentState | None, after: EnvironmentState | None) -> dict[str, str]:
    plans = [state.plan for state in (after, before) if state is not None]
    return {tenant.namespace: tenant.name for plan in plans for tenant in plan.tenants}


def _seen(
    effect: NodeEffect,
    snapshot: Snapshot,
    tenants: Mapping[str, str],
    before: EnvironmentState | None,
    after: EnvironmentState | None,
) -> NodeEffect:
    if effect.kind in ("stay", "started"):
        return effect
    nodes = _touched(effect, snapshot, before, after)
    names = {node["metadata"]["name"] for node in nodes}
    pods = [pod for name in sorted(names) for pod in snapshot.pods_on(name)] if effect.disruptive else []
    return dataclasses.replace(
        effect,
        nodes=tuple(sorted(names)),
        nodes_now=len(names),
        pods_at_risk=tuple(
            _at_risk(pod, tenants, snapshot.taken) for pod in pods if requested(pod) and not ended(pod)
        ),
    )


def _touched(
    effect: NodeEffect, snapshot: Snapshot, before: EnvironmentState | None, after: EnvironmentState | None
) -> list[dict[str, Any]]:
    if effect.kind == "relabelled" and effect.nodes:
        return [snapshot.nodes[name] for name in effect.nodes if name in snapshot.nodes]
    if effect.kind == "relabelled":
        return [node for node in snapshot.nodes.values() if _selected(node, effect.pool, before, after)]
    pools = [pool.name for state in (before,) if state for pool in state.plan.pools]
    nodes = [node for pool in ([effect.pool] if effect.pool else pools) for node in snapshot.nodes_of(pool)]
    if effect.node_pool is None:
        return nodes
    nodes = [node for node in nodes if labels(node).get(NODEPOOL_LABEL) == effect.node_pool]
    if effect.kind != "replaced" or before is None or after is None:
        return nodes
    return [node for node in nodes if leaving(effect.node_pool, labels(node), before, after)]


def _selected(
    node: dict[str, Any], pool: str, before: EnvironmentState | None, after: EnvironmentState | None
) -> bool:
    selectors = [
        each.node_selector
        for state in (before, after)
        if state
        for each in state.plan.pools
        if each.name == pool and each.node_selector
    ]
    return any(selector.items() <= labels(node).items() for selector in selectors)


def _at_risk(pod: dict[str, Any], tenants: Mapping[str, str], now: datetime) -> PodAtRisk:
    metadata = pod["metadata"]
    owners = [one for one in metadata.get("ownerReferences") or () if one.get("controller")]
    began = pod.get("status", {}).get("startTime") or metadata["creationTimestamp"]
    held = notes(pod).get(DO_NOT_DISRUPT, "false")
    return PodAtRisk(
        namespace=metadata["namespace"],
        name=metadata["name"],
        tenant=tenants.get(metadata["namespace"]),
        node=pod["spec"]["nodeName"],
        age_seconds=max(0, int((now - datetime.fromisoformat(began)).total_seconds())),
        restart_policy=pod["spec"].get("restartPolicy", "Always"),
        owner=f"{owners[0]['kind']} {owners[0]['name']}" if owners else None,
        requests=counts(requested(pod)),
        protected=held != "false",
    )


def _over_quota(
    snapshot: Snapshot, before: EnvironmentState | None, after: EnvironmentState | None
) -> Iterable[TenantUse]:
    used: dict[str, dict[str, int]] = {}
    for pod in snapshot.of("v1", "Pod"):
        if not ended(pod):
            row = used.setdefault(pod["metadata"]["namespace"], {})
            for name, count in requested(pod).items():
                row[name] = row.get(name, 0) + count
    after_tenants = {tenant.namespace: tenant for tenant in _of(after)}
    for tenant in {**{one.namespace: one for one in _of(before)}, **after_tenants}.values():
        quota = after_tenants[tenant.namespace].quota if tenant.namespace in after_tenants else {}
        for resource, count in sorted(used.get(tenant.namespace, {}).items()):
            if count > quota.get(resource, 0):
                yield TenantUse(tenant.name, tenant.namespace, resource, count, quota.get(resource, 0))


def _of(state: EnvironmentState | None) -> tuple[Tenant, ...]:
    return state.plan.tenants if state else ()


def connect(plan: Plan) -> KubeApi:
    """A client for the cluster of the plan. Raises KubeconfigError."""
    from infra.program import connect as connect_to

    return connect_to(plan)
