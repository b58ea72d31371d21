"""Whether a repartition of a pool is under way in a cluster; `up` must not run meanwhile.

While nodes of old and new shape live side by side the operator's configurations hold both. `up` would put
the plain ones in their place, and nodes that have not been changed yet would lose their slices at once.
And what a repartition has left that neither file nor state know any more goes with the next `up`. This module
does not depend on what a repartition is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpupool.environment.plan.model import SYSTEM_NAMESPACE
from gpupool.findings import GpupoolError
from gpupool.generators.manifest import Bundle, Manifest
from gpupool.live.cluster.kube_api import KubeApi
from gpupool.live.cluster.live_objects import OPERANDS, cluster_policy, config_name
from gpupool.live.objects import owner

JOURNAL = "gpupool-repartition"
"""Name of the ConfigMap that exists from before the first to after the last change of a repartition."""
JOURNAL_KEY = "journal.json"
MARK = "gpupool.dev/repartition"
"""Annotation on a node that is being worked on. It is set and removed in the same write as the cordon."""
PLUGIN_PREFIX, MIG_PREFIX = "gpupool-device-plugin", "gpupool-mig"
"""How the names of the operator's configurations begin (generators.device_plugin, generators.mig_parted)."""
_MAP_PREFIXES = (f"{PLUGIN_PREFIX}-", f"{MIG_PREFIX}-")


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
    return None if live is None else noted(live)


def noted(journal: Mapping[str, Any]) -> UnderWay:
    """What the ConfigMap says; `?` for what a damaged one does not."""
    try:
        value = json.loads((journal.get("data") or {}).get(JOURNAL_KEY) or "{}")
        return UnderWay(str(value.get("environment", "?")), str(value.get("pool", "?")))
    except (ValueError, AttributeError):
        return UnderWay("?", "?")


def unseen(api: KubeApi, bundle: Bundle, deployment: Mapping[str, Any]) -> bool:
    """Whether the operator follows settings that the stack's state does not know, while state and file agree:
    a repartition was not followed by `up`, and an `up` now sees nothing to change."""
    known = _known(deployment)
    return _maps(bundle) <= known and bool(in_force(api) - known)


def clear_left(api: KubeApi, bundle: Bundle) -> tuple[str, ...]:
    """Delete the environment's configurations that the file does not ask for and the operator does not
    follow, after an `up` that has gone well, so that the state has no others either; their names."""
    if find(api) is not None:
        return ()
    ours = owner.selector(bundle.environment)
    namespace = bundle.operator_namespace
    live = {row["metadata"]["name"] for row in api.list("v1", "ConfigMap", namespace, ours)}
    left = sorted(name for name in live - _maps(bundle) if name.startswith(_MAP_PREFIXES))
    if not left:
        return ()
    used = in_force(api)
    gone = tuple(name for name in left if name not in used)
    for name in gone:
        api.delete("v1", "ConfigMap", name, namespace)
    return gone


def is_map(manifest: Manifest) -> bool:
    """Whether it is a configuration of the operator's: `clear_left` knows when one may go."""
    return manifest.kind == "ConfigMap" and manifest.name.startswith(_MAP_PREFIXES)


def in_force(api: KubeApi) -> frozenset[str]:
    """Names of our configurations that the operator's ClusterPolicy follows."""
    policy = cluster_policy(api)
    names = (config_name(policy, operand) for operand in OPERANDS)
    return frozenset(name for name in names if name.startswith(_MAP_PREFIXES))


def maps_of(bundle: Bundle) -> list[Manifest]:
    """The operator's configurations that the file asks for."""
    return [manifest for manifest in bundle if manifest.mounted_by_operator]


def _maps(bundle: Bundle) -> set[str]:
    return {manifest.name for manifest in maps_of(bundle)}


def _known(deployment: Mapping[str, Any]) -> set[str]:
    """Names of all objects in the stack's state."""
    rows = deployment.get("resources") or ()
    return {str(((row.get("inputs") or {}).get("metadata") or {}).get("name")) for row in rows}


def require_none(api: KubeApi, environment: str) -> None:
    """Raise UnderWayError where a repartition has begun and not ended."""
    begun = find(api)
    if begun is not None:
        raise UnderWayError(
            f"pool {begun.pool} is being repartitioned, and `up` would change all its nodes at once; finish "
            f"it with: gpupool repartition {environment} {begun.pool}, or undo it with: "
            f"gpupool repartition {environment} {begun.pool} --rollback"
        )
