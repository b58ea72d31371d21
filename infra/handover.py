"""Move the fields of an environment's objects from the tools that delivered them to the one that does now.

No value of any object changes: only who may change and delete it (metadata.managedFields). Charts are not
among it: Helm keeps its own record of a release.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from gpupool.cluster.conflicts import until_no_conflict
from gpupool.cluster.kube_api import ApiError, KubeApi
from gpupool.findings import GpupoolError
from gpupool.generators.manifest import Bundle, Manifest
from gpupool.objects.handover import handed_over
from gpupool.objects.managed_fields import managers
from gpupool.plan.delivery import ENGINE_FACTS
from gpupool.plan.model import Plan


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
