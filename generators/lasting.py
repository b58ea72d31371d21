"""Which objects must not be deleted in passing, because work goes with them.

Whoever applies files by itself deletes what is no longer in them. Here is what that must not happen to: the
one place that says so for every engine. Must not know any engine.
"""

from __future__ import annotations

from generators import quotas
from generators.manifest import Manifest
from generators.metadata import TENANT_LABEL

_POOL_KINDS = frozenset({"NodePool", "EC2NodeClass", "KWOKNodeClass"})
"""Karpenter drains the nodes of a NodePool that goes, jobs and all, and needs its class until then. No
NodeOverlay: one that stays behind contradicts those that came in its place, and Karpenter obeys neither."""
_BOUNDS = frozenset({"ResourceQuota", "LimitRange", "NetworkPolicy"})


def is_foreign(manifest: Manifest) -> bool:
    """Whether the object is somebody else's and only some of its fields are ours: never ours to delete."""
    return manifest.patch


def holds_work(manifest: Manifest) -> bool:
    """Whether jobs or people's data go with the object, or what bounds them: a namespace that stays must not
    lose its quota, for then every GPU is its own."""
    bounds = manifest.kind in _BOUNDS and manifest.name == quotas.NAME and TENANT_LABEL in manifest.labels
    return manifest.protect or manifest.kind in _POOL_KINDS or bounds
