"""An environment brought to the shared control plane as `gpupool up` does, and taken away again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from generators import generate
from generators.manifest import Manifest
from gpupool.plan import Plan
from infra import static_nodes

MANAGER = "gpupool"
"""The field manager of `gpupool up`: by it the server knows which labels of a node are the pool's."""


@pytest.fixture
def bring(cluster: Any) -> Iterator[Callable[[Plan], None]]:
    """Apply everything that a plan amounts to; what the cluster's own cleaning leaves goes after the test."""
    applied: list[Manifest] = []

    def apply(plan: Plan) -> None:
        manifests = tuple(generate(plan))
        if plan.cluster.platform == "static":
            manifests = static_nodes.resolve(plan, manifests, cluster.api)
        for manifest in manifests:
            cluster.api.apply(dict(manifest.body), MANAGER, force=True)
            applied.append(manifest)

    yield apply
    for manifest in reversed(applied):
        if manifest.namespace is None and manifest.kind not in ("Namespace", "Node"):
            cluster.api.delete(manifest.api_version, manifest.kind, manifest.name)
