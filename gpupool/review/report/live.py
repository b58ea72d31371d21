"""What a cluster adds to a report: how many nodes there are now, what runs on those that are touched, who
uses more than the new quota gives.

Two list requests for a cluster, nodes and pods, whatever it holds. Reads only.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gpupool.environment.plan.changes.wording import counts
from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.tenant_quotas import ALL, TenantQuota, quotas_of
from gpupool.live.cluster.kube_api import KubeApi
from gpupool.live.cluster.live_objects import ended, requested
from gpupool.live.cluster.snapshot import (
    ALL_PODS,
    NODEPOOL_LABEL,
    NODES,
    ClusterSnapshot,
    labels,
    notes,
    take,
)
from gpupool.review.report.effects.karpenter_nodes import leaving
from gpupool.review.report.environment_state import EnvironmentState
from gpupool.review.report.model import LiveState, NodeEffect, PodAtRisk, PoolNodeChange, TenantUse

DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"


@dataclass(frozen=True, slots=True)
class Live:
    """A cluster beside the two states of its environment."""

    snapshot: ClusterSnapshot
    before: EnvironmentState | None
    after: EnvironmentState | None

    @classmethod
    def of(cls, api: KubeApi, before: EnvironmentState | None, after: EnvironmentState | None) -> Live:
        """Asks for nodes and pods. Raises GpupoolError where the cluster can't be asked."""
        return cls(take(api, (NODES, ALL_PODS)), before, after)

    @property
    def plans(self) -> list[Plan]:
        """Of the states that there are, the one after first."""
        return [state.plan for state in (self.after, self.before) if state is not None]

    def seen(self, effects: Sequence[NodeEffect]) -> tuple[NodeEffect, ...]:
        """`effects` with the nodes that they touch now and the pods with GPUs there."""
        return tuple(map(self._seen, effects))

    def state(self) -> LiveState:
        """Nodes by pool, and tenants that use more now than the change leaves."""
        pools = dict.fromkeys(pool.name for plan in self.plans for pool in plan.pools)
        return LiveState(
            cluster=self.plans[-1].cluster.name,
            nodes=tuple(PoolNodeChange(pool, len(self.snapshot.nodes_of(pool))) for pool in pools),
            over_quota=tuple(self._over_quota()),
        )

    def _seen(self, effect: NodeEffect) -> NodeEffect:
        if effect.kind in ("stay", "started"):
            return effect
        names = sorted({node["metadata"]["name"] for node in self._touched(effect)})
        pods = [pod for name in names for pod in self.snapshot.pods_on(name)] if effect.disruptive else []
        tenants = {tenant.namespace: tenant.name for plan in self.plans for tenant in plan.tenants}
        return dataclasses.replace(
            effect,
            nodes=tuple(names),
            nodes_now=len(names),
            pods_at_risk=tuple(
                _at_risk(pod, tenants, self.snapshot.taken)
                for pod in pods
                if requested(pod) and not ended(pod)
            ),
        )

    def _touched(self, effect: NodeEffect) -> list[dict[str, Any]]:
        snapshot, before, after = self.snapshot, self.before, self.after
        if effect.kind == "relabelled" and effect.nodes:
            return [snapshot.nodes[name] for name in effect.nodes if name in snapshot.nodes]
        if effect.kind == "relabelled":
            return [node for node in snapshot.nodes.values() if self._selected(node, effect.pool)]
        pools = [effect.pool] if effect.pool else [pool.name for pool in before.plan.pools] if before else []
        nodes = [node for pool in pools for node in snapshot.nodes_of(pool)]
        if effect.node_pool is None:
            return nodes
        nodes = [node for node in nodes if labels(node).get(NODEPOOL_LABEL) == effect.node_pool]
        if effect.kind != "replaced" or before is None or after is None:
            return nodes
        return [node for node in nodes if leaving(effect.node_pool, labels(node), before, after)]

    def _selected(self, node: dict[str, Any], pool: str) -> bool:
        pools = [one for plan in self.plans for one in plan.pools if one.name == pool and one.node_selector]
        return any(one.node_selector.items() <= labels(node).items() for one in pools)

    def _over_quota(self) -> Iterable[TenantUse]:
        """What borrowed pods use counts against `upTo` alone, as in the tenant's two quotas."""
        pods: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for pod in self.snapshot.of("v1", "Pod"):
            if not ended(pod):
                pods[pod["metadata"]["namespace"]].append(pod)
        before, after = (
            {tenant.namespace: tenant for tenant in state.plan.tenants} if state else {}
            for state in (self.before, self.after)
        )
        for namespace, tenant in (before | after).items():
            over: dict[str, TenantUse] = {}
            for quota in self._quotas(namespace):
                used = Counter[str]()
                for pod in pods[namespace]:
                    if quota.counts_class(pod["spec"].get("priorityClassName") or ""):
                        used.update(requested(pod))
                for resource, count in used.items():
                    there = quota.counts.get(resource, 0)
                    if count > there and (resource in quota.counts or quota.pool is None):
                        over[resource] = TenantUse(tenant.name, namespace, resource, count, there)
            yield from (over[resource] for resource in sorted(over))

    def _quotas(self, namespace: str) -> tuple[TenantQuota, ...]:
        """What will bound a namespace: all its GPU pods are too many where it is no tenant's any more."""
        for tenant in self.after.plan.tenants if self.after else ():
            if tenant.namespace == namespace and self.after:
                return quotas_of(self.after.plan, tenant)
        return (TenantQuota(ALL, {}),)


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


def connect(plan: Plan) -> KubeApi:
    """A client for the cluster of the plan. Raises KubeconfigError."""
    from gpupool.live.cluster.access import connect as connect_to

    return connect_to(plan)
