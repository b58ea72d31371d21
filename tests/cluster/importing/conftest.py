"""An environment brought to the shared control plane as `gpupool up` does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpupool.environment.plan.model import Plan
from gpupool.generators import generate
from gpupool.live.objects import static_nodes

MANAGER = "gpupool"
"""The field manager of `gpupool up`: by it the server knows which labels of a node are the pool's."""


@pytest.fixture
def bring(cluster: Any) -> Callable[[Plan], None]:
    """Apply everything that a plan amounts to."""

    def apply(plan: Plan) -> None:
        manifests = tuple(generate(plan))
        if plan.cluster.platform == "static":
            manifests = static_nodes.resolve(plan, manifests, cluster.api)
        for manifest in manifests:
            cluster.api.apply(dict(manifest.body), MANAGER, force=True)

    return apply
