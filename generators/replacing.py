"""Fields that the API server never lets change, so that a new value needs a new object.

The one table for every engine: an engine must delete and recreate such an object, or it fails with the
server's refusal. Must not depend on an engine.
"""

from __future__ import annotations

from collections.abc import Mapping

from generators.manifest import Manifest

REPLACED_BY: Mapping[str, tuple[str, ...]] = {
    "PriorityClass": ("value", "preemptionPolicy"),
    "RoleBinding": ("roleRef",),
    "ClusterRoleBinding": ("roleRef",),
}
"""Kind -> its immutable fields (Kubernetes: pkg/apis/scheduling/validation, pkg/apis/rbac/validation)."""

_ALWAYS_THE_SAME = frozenset({"RoleBinding", "ClusterRoleBinding"})
"""Kinds whose immutable fields no environment file changes. An engine that may recreate objects
could do so for other reasons too, and users must not lose access while it does."""


def may_need_a_new_object(manifest: Manifest) -> bool:
    """Whether a change of the environment's file may change a field that an object can't change."""
    return manifest.kind in REPLACED_BY and manifest.kind not in _ALWAYS_THE_SAME and not manifest.patch
