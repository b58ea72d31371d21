"""Fields that the API server never lets change, so that a new value needs a new object.

The one table for every engine: who applies objects must delete such an object and make it anew, or stand
still at the server's refusal. Must not know any engine.
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
"""Kinds whose immutable fields no environment file has a word in. An engine that is told to recreate objects
may do so for other reasons too, and nobody must lose his access meanwhile."""


def may_need_a_new_object(manifest: Manifest) -> bool:
    """Whether a change of the environment's file may change a field that an object can't change."""
    return manifest.kind in REPLACED_BY and manifest.kind not in _ALWAYS_THE_SAME and not manifest.patch
