"""Move the fields of an environment's objects from the tools that delivered them to the one that does now.

A tool that applies deletes only what it alone owns: a key that its file loses stays where the tool before it
still owns the key. So the next one gets all that the others own, keys that the file has lost already among
it, and takes those away when it applies next (Kubernetes 1.36, server-side apply: merge strategy). No value
of any object changes: only who may change and delete it (metadata.managedFields). Charts are not among it:
Helm keeps its own record of a release.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

from gpupool.environment.plan.delivery import ENGINE_FACTS
from gpupool.environment.plan.model import Plan
from gpupool.findings import GpupoolError
from gpupool.generators.manifest import Bundle, Manifest
from gpupool.live.cluster.conflicts import until_no_conflict
from gpupool.live.cluster.kube_api import ApiError, KubeApi
from gpupool.live.objects.managed_fields import managers

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class HandedOver:
    """One object whose fields have a new owner."""

    object: Manifest
    owners: tuple[str, ...]
    """The field managers that owned some before."""


class HandoverError(GpupoolError):
    """The file names another engine than the command, or the cluster refuses a change."""


def require_engine(plan: Plan, engine: str) -> None:
    """Raise HandoverError where the file lets another engine deliver."""
    now = plan.delivery.engine
    if now != engine:
        raise HandoverError(
            f"{plan.environment} is delivered by {now} (delivery.engine in the file), not by {engine}; write "
            f"engine: {engine} first, so that the new owner of the objects also delivers them"
        )


def hand_over(
    plan: Plan, bundle: Bundle, api: KubeApi, report: Callable[[str], None], dry_run: bool = False
) -> list[HandedOver]:
    """Give the engine of the file what others own of each object that is there; what has changed, or would.

    Each object is written at once and at the version that was read, so an interrupted run leaves none half
    done, and goes on when it is started again.
    """
    engine = plan.delivery.by
    others = frozenset(manager for other in ENGINE_FACTS.values() for manager in other.managers) - {
        *engine.managers
    }
    changed = []
    for number, manifest in enumerate(bundle, 1):
        report(f"{number} of {len(bundle.manifests)}: {manifest}")
        try:
            owners = until_no_conflict(partial(_move, api, manifest, others, engine.managers[0], dry_run))
        except ApiError as error:
            raise HandoverError(f"{manifest}: {error}; run the same command again to continue") from error
        if owners:
            changed.append(HandedOver(manifest, tuple(sorted(owners))))
    return changed


def _move(
    api: KubeApi, manifest: Manifest, others: frozenset[str], manager: str, dry_run: bool
) -> frozenset[str]:
    """The managers that owned something; empty where there is nothing to move."""
    live = api.get(manifest.api_version, manifest.kind, manifest.name, manifest.namespace) or {"metadata": {}}
    rows = handed_over(live["metadata"].get("managedFields", []), others, manager)
    if rows is None:
        return frozenset()
    if not dry_run:
        version = live["metadata"]["resourceVersion"]
        patch = {"metadata": {"resourceVersion": version, "managedFields": rows}}
        api.patch(manifest.api_version, manifest.kind, manifest.name, patch, manifest.namespace)
    return managers(live) & others


def handed_over(rows: Sequence[Row], others: frozenset[str], manager: str) -> list[Row] | None:
    """metadata.managedFields in which `manager` owns, as one that applies, what any of `others` does; None
    where they own nothing. Rows of the status and of everybody else stay as they are."""
    moved = [row for row in rows if row.get("manager") in others and not row.get("subresource")]
    if not moved:
        return None
    stay = [row for row in rows if row not in moved]
    # Of several versions of the kind an object has a row each.
    applied = {
        str(row.get("apiVersion")): deepcopy(dict(row))
        for row in stay
        if row.get("manager") == manager and row.get("operation") == "Apply" and not row.get("subresource")
    }
    kept = [row for row in stay if row not in applied.values()]
    for row in moved:
        version = str(row.get("apiVersion"))
        own = applied.setdefault(version, {**row, "manager": manager, "operation": "Apply", "fieldsV1": {}})
        own["fieldsV1"] = _union(own["fieldsV1"], row.get("fieldsV1") or {})
    return [*kept, *applied.values()]


def _union(fields: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Both trees of fieldsV1 as one."""
    both = {key: _union(fields.get(key, {}), more.get(key, {})) for key in more}
    return {**fields, **both}
