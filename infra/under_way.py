"""Whether a repartition of a pool is under way in a cluster; `up` must not cut across it.

While nodes of old and new shape live side by side the operator's configurations hold both. `up` would put
the plain ones in their place, and nodes that have not been changed yet would lose their slices at once.
Only looks; what a repartition is, is no business of this module.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from generators.manifest import Bundle
from gpupool.findings import GpupoolError
from gpupool.plan import OPERATOR_NAMESPACE, SYSTEM_NAMESPACE
from infra.kube_api import KubeApi

JOURNAL = "gpupool-repartition"
"""Name of the ConfigMap that is there from before the first to after the last change of a repartition."""
JOURNAL_KEY = "journal.json"


class UnderWayError(GpupoolError):
    """A repartition has begun and not ended."""


@dataclass(frozen=True, slots=True)
class UnderWay:
    """Which pool is being repartitioned."""

    environment: str
    pool: str


def find(api: KubeApi) -> UnderWay | None:
    """The repartition that has begun and not ended; None where there is none."""
    live = api.get("v1", "ConfigMap", JOURNAL, SYSTEM_NAMESPACE)
    if live is None:
        return None
    value: Mapping[str, str] = json.loads((live.get("data") or {}).get(JOURNAL_KEY) or "{}")
    return UnderWay(str(value.get("environment", "?")), str(value.get("pool", "?")))


def left_maps(api: KubeApi, bundle: Bundle, deployment: Mapping[str, Any]) -> bool:
    """Whether a configuration of `bundle` is in the cluster and not in the stack's state: a repartition has
    made it, and it is in use."""
    hashed = [
        manifest
        for manifest in bundle
        if manifest.kind == "ConfigMap" and manifest.namespace == OPERATOR_NAMESPACE
    ]
    known = {
        ((row.get("inputs") or {}).get("metadata") or {}).get("name")
        for row in deployment.get("resources") or ()
    }
    # Nothing but an environment that was applied before can have been repartitioned.
    return bool(deployment.get("resources")) and any(
        api.get("v1", "ConfigMap", manifest.name, manifest.namespace) is not None
        for manifest in hashed
        if manifest.name not in known
    )


def require_none(api: KubeApi, environment: str) -> None:
    """Raise UnderWayError where a repartition has begun and not ended."""
    found = find(api)
    if found is not None:
        raise UnderWayError(
            f"pool {found.pool} is being repartitioned, and `up` would change all its nodes at once; finish "
            f"it with: gpupool repartition {environment} {found.pool}, or take it back with: "
            f"gpupool repartition {environment} {found.pool} --rollback"
        )
