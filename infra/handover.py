"""Move the fields of an environment's objects from the tools that delivered them to the one that does now.

No value of any object changes: only who may change and delete it (metadata.managedFields). Charts are not
among it: Helm keeps its own record of a release.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpupool.cluster.kube_api import ApiError, KubeApi
from gpupool.findings import GpupoolError
from gpupool.generators.manifest import Bundle, Manifest
from gpupool.infra.resource_values import FIELD_MANAGER
from gpupool.objects.handover import handed_over
from gpupool.objects.managed_fields import managers
from gpupool.plan.delivery import ENGINE_FACTS, Engine
from gpupool.plan.model import Plan

JSON_PATCH = "application/json-patch+json"
_CONFLICT = 409
_ATTEMPTS = 3
"""Of a write to an object that a controller writes to as well."""


@dataclass(frozen=True, slots=True)
class HandedOver:
    """One object whose fields have a new owner."""

    object: Manifest
    owners: tuple[str, ...]
    """The field managers that owned some before."""


class HandoverError(GpupoolError):
    """The file names another engine than the command, or the cluster refuses a change."""


def managers_of(engine: Engine) -> frozenset[str]:
    """Field managers under which an engine applies."""
    return engine.managers or frozenset({FIELD_MANAGER})


def require_engine(plan: Plan, engine: str) -> None:
    """Raise HandoverError where the file lets another engine deliver."""
    now = plan.delivery.engine
    if now != engine:
        raise HandoverError(
            f"{plan.environment} is delivered by {now} (delivery.engine in the file), not by {engine}; write "
            f"engine: {engine} first, so that the engine that gets the objects also delivers them"
        )


def hand_over(
    plan: Plan, bundle: Bundle, api: KubeApi, report: Callable[[str], None], dry_run: bool = False
) -> list[HandedOver]:
    """Give the engine of the file what others own of each object that is there; what has changed, or would.

    Each object is written at once and at the version that was read, so an interrupted run leaves none half
    done, and goes on when it is started again.
    """
    engine = plan.delivery.by
    others = frozenset[str]().union(
        *(managers_of(other) for other in ENGINE_FACTS.values() if other != engine)
    )
    manager = engine.applies_as
    changed = []
    for number, manifest in enumerate(bundle, 1):
        report(f"{number} of {len(bundle.manifests)}: {manifest}")
        owners = _move(api, manifest, others, manager, dry_run)
        if owners:
            changed.append(HandedOver(manifest, tuple(sorted(owners))))
    return changed


def _move(
    api: KubeApi, manifest: Manifest, others: frozenset[str], manager: str, dry_run: bool
) -> frozenset[str]:
    """The managers that owned something; empty where there is nothing to move."""
    for attempt in range(1, _ATTEMPTS + 1):
        live = api.get(manifest.api_version, manifest.kind, manifest.name, manifest.namespace)
        rows = handed_over(live["metadata"].get("managedFields", []), others, manager) if live else None
        if live is None or rows is None:
            return frozenset()
        if dry_run:
            return managers(live) & others
        version = live["metadata"]["resourceVersion"]
        patch = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": version},
            {"op": "replace", "path": "/metadata/managedFields", "value": rows},
        ]
        try:
            api.patch(
                manifest.api_version,
                manifest.kind,
                manifest.name,
                patch,
                manifest.namespace,
                content_type=JSON_PATCH,
            )
        except ApiError as error:
            # The test of a JSON patch fails as invalid (422), a write in between as a conflict.
            if error.status in (_CONFLICT, 422) and attempt < _ATTEMPTS:
                continue
            raise HandoverError(f"{manifest}: {error}; run the same command again to go on") from error
        return managers(live) & others
    raise AssertionError("the last attempt returns or raises")
