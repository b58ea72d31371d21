"""The report for machines. The keys are a contract: they are added to, never renamed (docs/report.md)."""

from __future__ import annotations

from typing import Any

from gpupool.plan.changes.model import BeforeAfter, Cost, FieldChange, PoolChange, PoolState, TenantChange
from gpupool.report.model import (
    EnvironmentReport,
    FindingChanges,
    LiveState,
    NodeEffect,
    PodAtRisk,
    PolicyNote,
    Report,
    State,
    WaiverNote,
)

SCHEMA = 1


def as_json(report: Report) -> dict[str, Any]:
    """Everything that the report says, as values that JSON has."""
    return {
        "schema": SCHEMA,
        "base": _state(report.base),
        "head": _state(report.head),
        "today": report.today.isoformat(),
        "costThreshold": report.cost_threshold,
        "valid": report.valid,
        "dangers": sum(r.severity == "danger" for each in report.environments for r in each.risks),
        "cautions": sum(r.severity == "caution" for each in report.environments for r in each.risks),
        "environments": [_environment(each) for each in report.environments],
        "together": _findings(report.together),
        "notes": list(report.notes),
    }


def _state(state: State) -> dict[str, Any]:
    return {"name": state.name, "commit": state.commit, "dirty": state.dirty}


def _environment(each: EnvironmentReport) -> dict[str, Any]:
    return {
        "name": each.name,
        "file": each.file,
        "change": each.change,
        "edited": each.edited,
        "platform": _both(each.platform),
        "invalid": {
            "before": [_note(note) for note in each.invalid.before],
            "after": [_note(note) for note in each.invalid.after],
        },
        "risks": [{"severity": risk.severity, "kind": risk.kind, "text": risk.text} for risk in each.risks],
        "nodesMax": _both(each.nodes),
        "gpusMax": _both(each.gpus),
        "slicesMax": [
            {"resource": one.resource, "before": one.before, "after": one.after} for one in each.resources
        ],
        "monthlyUsd": {"before": _cost(each.cost.before), "after": _cost(each.cost.after)},
        "effects": [_effect(effect) for effect in each.effects],
        "pools": [_pool(pool) for pool in each.pools],
        "tenants": [_tenant(tenant) for tenant in each.tenants],
        "settings": [_field(field) for field in each.settings],
        "findings": _findings(each.findings),
        "waivers": [_waiver(note) for note in each.waivers],
        "live": _live(each.live) if each.live else None,
        "notes": list(each.notes),
    }


def _both(pair: BeforeAfter[Any]) -> dict[str, Any]:
    return {"before": pair.before, "after": pair.after}


def _cost(cost: Cost | None) -> dict[str, float] | None:
    return {"min": cost.floor, "max": cost.ceiling} if cost else None


def _field(field: FieldChange) -> dict[str, Any]:
    return {"name": field.name, "before": field.before, "after": field.after}


def _pool(pool: PoolChange) -> dict[str, Any]:
    return {
        "name": pool.name,
        "change": pool.change,
        "renamedFrom": pool.renamed_from,
        "before": _pool_state(pool.before) if pool.before else None,
        "after": _pool_state(pool.after) if pool.after else None,
        "fields": [_field(field) for field in pool.fields],
    }


def _pool_state(state: PoolState) -> dict[str, Any]:
    return {
        "name": state.name,
        "gpu": state.gpu,
        "mode": state.mode,
        "sharing": state.sharing,
        "layout": dict(state.layout),
        "instanceTypes": list(state.instance_types),
        "nodesMax": state.nodes_max,
        "warm": state.warm,
        "gpusPerNode": state.gpus_per_node,
        "gpusMax": state.gpus_max,
        "slicesPerNode": dict(state.slices_per_node),
        "slicesMax": dict(state.slices_max),
        "monthlyUsd": _cost(state.cost),
    }


def _tenant(tenant: TenantChange) -> dict[str, Any]:
    return {
        "name": tenant.name,
        "namespace": tenant.namespace,
        "change": tenant.change,
        "renamedFrom": tenant.renamed_from,
        "quota": [
            {"resource": one.resource, "before": one.before, "after": one.after} for one in tenant.quota
        ],
        "budget": _both(tenant.budget),
        "fields": [_field(field) for field in tenant.fields],
    }


def _effect(effect: NodeEffect) -> dict[str, Any]:
    return {
        "kind": effect.kind,
        "pool": effect.pool or None,
        "nodePool": effect.node_pool,
        "reason": effect.reason,
        "what": effect.what,
        "certain": effect.certain,
        "disruptive": effect.disruptive,
        "pods": effect.pods,
        "nodesMax": effect.nodes_max,
        "atOnce": effect.at_once,
        "window": effect.window,
        "nodes": list(effect.nodes),
        "nodesNow": effect.nodes_now,
        "podsAtRisk": [_pod(pod) for pod in effect.pods_at_risk],
    }


def _pod(pod: PodAtRisk) -> dict[str, Any]:
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "tenant": pod.tenant,
        "node": pod.node,
        "ageSeconds": pod.age_seconds,
        "restartPolicy": pod.restart_policy,
        "owner": pod.owner,
        "requests": pod.requests,
        "protected": pod.protected,
    }


def _note(note: PolicyNote) -> dict[str, Any]:
    return {
        "level": note.level,
        "rule": note.rule,
        "object": note.object or None,
        "path": note.path,
        "message": note.message,
        "fix": note.fix,
    }


def _findings(findings: FindingChanges) -> dict[str, Any]:
    return {
        "new": [_note(note) for note in findings.new],
        "fixed": [_note(note) for note in findings.fixed],
        "remaining": findings.remaining,
    }


def _waiver(note: WaiverNote) -> dict[str, Any]:
    return {
        "policy": note.policy,
        "namespace": note.namespace,
        "owner": note.owner,
        "reason": note.reason,
        "until": note.until.isoformat(),
        "daysLeft": note.days_left,
        "change": note.change,
    }


def _live(live: LiveState) -> dict[str, Any]:
    return {
        "cluster": live.cluster,
        "nodes": [{"pool": pool, "count": count} for pool, count in live.nodes],
        "overQuota": [
            {
                "tenant": use.tenant,
                "namespace": use.namespace,
                "resource": use.resource,
                "used": use.used,
                "quota": use.quota,
            }
            for use in live.over_quota
        ],
    }
