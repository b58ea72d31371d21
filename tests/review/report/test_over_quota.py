"""Which tenants of a cluster use more than a change leaves them, where part of the use is borrowed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from gpupool.environment.plan.pods import BORROWED_CLASS
from gpupool.generators import generate
from gpupool.live.cluster.snapshot import ClusterSnapshot
from gpupool.review.report.environment_state import EnvironmentState
from gpupool.review.report.live import Live
from tests.environment.plan.test_borrowing import NVIDIA, environment
from tests.environment_files import plan_of


def pod(name: str, slices: int, **spec: Any) -> dict[str, Any]:
    requests = {"requests": {NVIDIA: str(slices)}}
    return {
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {"containers": [{"name": "main", "resources": requests}], **spec},
    }


def state(grant: int, up_to: int) -> EnvironmentState:
    """On pool `shared`, where a GPU has 4 slices."""
    plan = plan_of(environment({"shared": {"gpus": grant, "upTo": up_to}}))
    return EnvironmentState(plan, generate(plan))


@pytest.mark.parametrize(
    ("own", "borrowed", "grant", "up_to", "reported"),
    [
        (4, 8, 1, 3, []),
        (4, 8, 1, 2, [(12, 8)]),
        (5, 3, 1, 3, [(5, 4)]),
        (8, 4, 3, 4, []),
        (8, 8, 1, 3, [(8, 4)]),
    ],
)
def test_borrowed_pods_count_against_what_a_tenant_may_borrow_alone(
    own: int, borrowed: int, grant: int, up_to: int, reported: list[tuple[int, int]]
) -> None:
    pods = [pod("own", own), pod("borrowed", borrowed, priorityClassName=BORROWED_CLASS)]
    objects = {("v1", "Pod"): {("team-a", one["metadata"]["name"]): one for one in pods}}
    live = Live(ClusterSnapshot(objects, datetime.now(UTC)), state(1, 4), state(grant, up_to))
    assert [(use.used, use.quota) for use in live.state().over_quota] == reported
