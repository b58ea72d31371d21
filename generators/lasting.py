"""Which objects must not be deleted automatically, because running work would be lost with them.

An engine that applies files deletes objects that are no longer in them. This module lists the exceptions for
every engine. It must not depend on an engine.
"""

from __future__ import annotations

from generators import quotas
from generators.manifest import Manifest
from generators.metadata import TENANT_LABEL

_POOL_KINDS = frozenset({"NodePool", "EC2NodeClass", "KWOKNodeClass"})
"""Karpenter drains the nodes of a NodePool that goes, jobs and all, and needs its class until then. No
NodeOverlay: one that stays behind contradicts its replacements, and Karpenter then uses neither."""
_BOUNDS = frozenset({"ResourceQuota", "LimitRange", "NetworkPolicy"})


def is_foreign(manifest: Manifest) -> bool:
    """Whether the object is somebody else's and only some of its fields are ours: never ours to delete."""
    return manifest.patch


def holds_work(manifest: Manifest) -> bool:
    """Whether jobs or people's data go with the object, or what bounds them: a namespace that stays must not
    lose its quota, for then every GPU is its own."""
    bounds = manifest.kind in _BOUNDS and manifest.name == quotas.NAME and TENANT_LABEL in manifest.labels
    return manifest.protect or manifest.kind in _POOL_KINDS or bounds
