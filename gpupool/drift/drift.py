"""One difference between the cluster and the file, in the form that all layers use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """What a difference means for the verdict."""

    drift = "drift"
    """The cluster is not what the file says, and this will not resolve itself: exit 1."""
    settling = "settling"
    """A change is in progress: nothing to do yet."""
    warning = "warning"
    """As the file says, but worth checking."""


LAYERS: Mapping[str, str] = {
    "objects": "objects generated from the file",
    "nodes": "nodes of the pools",
    "slices": "slices that nodes offer",
    "karpenter": "Karpenter's pools, overlays and node claims",
    "tenants": "tenants' namespaces and quotas",
    "policies": "policies in the cluster",
    "others": "other tools that manage the same objects",
}
"""Layer -> what it is about, in the order in which they are reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One difference, with its reason and the command that fixes it."""

    layer: str
    """One of LAYERS."""
    kind: str
    """Which kind of difference, as `missing`; a key of docs/assert.md."""
    object: str
    """What it is about, as `NodePool research-a100` or `Node ip-10-0-0-7`."""
    reason: str
    """What is wrong and, as far as can be seen, why."""
    repair: str
    """The command that fixes it, or what to do where no command can."""
    level: Severity = Severity.drift
    path: str = ""
    """The field, where it is about one."""
    wanted: Any = None
    found: Any = None
    by: str = ""
    """Who set the field: a name of metadata.managedFields."""

    def as_dict(self) -> dict[str, Any]:
        """Stable keys for `--format json`."""
        keys = ("layer", "kind", "level", "object", "path", "wanted", "found", "by", "reason", "repair")
        return {key: getattr(self, key) for key in keys}
