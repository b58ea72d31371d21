"""What the Plan amounts to for decisions."""

from __future__ import annotations

import json

import pytest

from gpupool.plan.resolve import resolve
from gpupool.queue.domain.supply import supply_of
from gpupool.spec.load import check_shape
from gpupool.spec.yaml_source import parse_source


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
    given = {
        "apiVersion": "gpupool.dev/v1alpha1",
        "kind": "Environment",
        "metadata": {"name": "shares"},
        "cluster": {"platform": "static", "name": "lab"},
        "pools": [
            {
                "name": "notebooks",
                "gpu": "t4",
                "sharing": {"mode": "time-slicing", "replicas": 8},
                "nodes": {"names": ["n1"], "gpus": 2},
            }
        ],
        "tenants": [
            {
                "name": name,
                "namespace": f"team-{name}",
                "weight": weight,
                "pools": {"notebooks": {"slices": slices}},
            }
            for name, weight, slices in zip(("a", "b"), weights, grants, strict=True)
        ],
    }
    plan = resolve(check_shape(parse_source("shares.yaml", json.dumps(given).encode())))
    found = supply_of(plan).tenants
    assert tuple(found[name].guaranteed["notebooks", "nvidia.com/gpu"] for name in ("a", "b")) == guaranteed
