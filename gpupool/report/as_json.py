"""The report for machines. The keys are a contract: they are added to, never renamed (docs/report.md)."""

from __future__ import annotations

from typing import Any

from gpupool.json_keys import json_of
from gpupool.plan.changes.model import (
    BeforeAfter,
    Cost,
    PoolChange,
    PoolState,
    ResourceChange,
    SettingChange,
    TenantChange,
)
from gpupool.report.model import (
    EnvironmentReport,
    FindingChanges,
    LiveState,
    NodeEffect,
    PodAtRisk,
    PolicyNote,
    PoolNodeChange,
    ProjectState,
    Report,
    Risk,
    TenantUse,
    WaiverNote,
)

SCHEMA = 1
_KEYS = {
    Report: "base head today costThreshold valid dangers cautions environments together notes",
    ProjectState: "name commit dirty",
    EnvironmentReport: "name file change edited platform invalid risks nodesMax=nodes gpusMax=gpus "
    "slicesMax=resources monthlyUsd=cost effects pools tenants settings findings waivers live notes",
    BeforeAfter: "before after",
    Cost: "min=floor max=ceiling",
    SettingChange: "name before after",
    PoolChange: "name change renamedFrom before after fields",
    PoolState: "name gpu mode sharing layout instanceTypes nodesMax warm gpusPerNode gpusMax slicesPerNode "
    "slicesMax monthlyUsd=cost",
    ResourceChange: "resource before after",
    TenantChange: "name namespace change renamedFrom quota budget fields",
    NodeEffect: "kind pool? nodePool reason what certain disruptive pods nodesMax atOnce window nodes "
    "nodesNow podsAtRisk",
    PodAtRisk: "namespace name tenant node ageSeconds restartPolicy owner requests protected",
    Risk: "severity kind text",
    PolicyNote: "level rule object? path message fix",
    FindingChanges: "new fixed remaining",
    WaiverNote: "policy namespace owner reason until daysLeft change",
    LiveState: "cluster nodes overQuota",
    PoolNodeChange: "pool count=nodes",
    TenantUse: "tenant namespace resource used quota",
}


def as_json(report: Report) -> dict[str, Any]:
    """Everything that the report says, as values that JSON has."""
    return {"schema": SCHEMA, **json_of(report, _KEYS)}
