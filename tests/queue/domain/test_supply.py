"""What the Plan amounts to for decisions."""

from __future__ import annotations

import pytest

from gpupool.queue.domain.supply import supply_of
from tests.environment_files import environment_data, plan_of


@pytest.mark.parametrize(
    ("weights", "grants", "guaranteed"),
    [
        ((1, 1), (8, 8), (8, 8)),
        ((3, 1), (8, 8), (8, 8)),
        ((1, 1), (16, 16), (8, 8)),
        ((3, 1), (16, 16), (12, 4)),
        ((0.3, 0.1), (16, 16), (12, 4)),
        ((1, 1), (16, 8), (10, 5)),
        ((9, 1), (4, 16), (4, 4)),
    ],
)
def test_guaranteed_shares_follow_weights_where_grants_exceed_the_pool(
    weights: tuple[float, float], grants: tuple[int, int], guaranteed: tuple[int, int]
) -> None:
    given = environment_data(
        "static",
        pools=[
            {
                "name": "notebooks",
                "gpu": "t4",
                "sharing": {"mode": "time-slicing", "replicas": 8},
                "nodes": {"names": ["n1"], "gpus": 2},
                "overcommit": True,
            }
        ],
        tenants=[
            {
                "name": name,
                "namespace": f"team-{name}",
                "weight": weight,
                "pools": {"notebooks": {"slices": slices}},
            }
            for name, weight, slices in zip(("a", "b"), weights, grants, strict=True)
        ],
    )
    found = supply_of(plan_of(given)).tenants
    assert tuple(found[name].guaranteed["notebooks", "nvidia.com/gpu"] for name in ("a", "b")) == guaranteed
