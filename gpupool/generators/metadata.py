"""What all generated objects have in common: labels that show where they come from, and derived names.

Must not depend on any particular kind of object; the versions of their APIs are in `kinds`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from gpupool.environment.plan.model import ENVIRONMENT_LABEL, MANAGED_BY, POOL_LABEL, Plan, Pool
from gpupool.environment.plan.tenants import Tenant
from gpupool.generators.kinds import KINDS, rank_of
from gpupool.generators.manifest import Manifest

TENANT_LABEL = "gpupool.dev/tenant"


def object_labels(plan: Plan, pool: Pool | None = None, tenant: Tenant | None = None) -> dict[str, str]:
    """Labels that name an object's environment, and its pool or tenant where it has one."""
    labels = {MANAGED_BY: "gpupool", ENVIRONMENT_LABEL: plan.environment}
    if pool is not None:
        labels[POOL_LABEL] = pool.name
    if tenant is not None:
        labels[TENANT_LABEL] = tenant.name
    return labels


def manifest_of(
    plan: Plan,
    kind: str,
    name: str,
    namespace: str | None = None,
    *,
    pool: Pool | None = None,
    tenant: Tenant | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    protect: bool = False,
    **fields: Any,
) -> Manifest:
    """The object called `name` with these `fields` (spec, data ...); `labels` are added to those that every
    object has. Raises IndexError for a kind that is not in the table."""
    metadata = {
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        "labels": {**object_labels(plan, pool, tenant), **(labels or {})},
        **({"annotations": dict(annotations)} if annotations else {}),
    }
    body = {"apiVersion": KINDS[rank_of(kind)].api_version, "kind": kind, "metadata": metadata, **fields}
    return Manifest(body, protect=protect)


def content_name(prefix: str, content: Any) -> str:
    """`<prefix>-<hash>`: a name that changes with `content`, for objects whose readers notice a new name
    but not an edit (GPU Operator v26.7.0 does not watch the ConfigMaps it is pointed at)."""
    digest = sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    return f"{prefix}-{digest[:10]}"


def quantities(counts: Mapping[str, int]) -> dict[str, str]:
    """Resource counts as quantities, always text: integers make GitOps tools see differences for ever
    (Karpenter documentation v1.14, NodePool limits)."""
    return {name: str(count) for name, count in counts.items()}
