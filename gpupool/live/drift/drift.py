"""One difference between the cluster and the file, in the form that all layers use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpupool.findings import Category, Finding

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
class Drift(Finding):
    """One difference: `what` says what is wrong and, as far as can be seen, why; `remediation` is the command
    for it, or what to do where no command can. The codes are keys of docs/assert.md."""

    category: Category = Category.drift
    layer: str
    """One of LAYERS."""
    wanted: Any = None
    found: Any = None
    by: str = ""
    """Who set the field: a name of metadata.managedFields."""

    def __post_init__(self) -> None:
        keys = ("layer", "wanted", "found", "by")
        object.__setattr__(self, "details", {key: getattr(self, key) for key in keys})
