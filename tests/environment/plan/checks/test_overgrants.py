"""Pools of which more is granted than they have: a finding, unless the file says that it is meant."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.findings import Finding, SpecError
from tests.environment_files import environment_data, plan_of

EXCLUSIVE = {"name": "pool", "gpu": "h100-80gb", "nodes": {"instanceTypes": ["p5.48xlarge"], "max": 2}}
PARTED = {
    **EXCLUSIVE,
    "sharing": {"mode": "mig", "layout": {"3g.40gb": 1, "2g.20gb": 2}},
}
SLICED = {
    "name": "pool",
    "gpu": "t4",
    "sharing": {"mode": "time-slicing", "replicas": 4},
    "nodes": {"instanceTypes": ["g4dn.xlarge"], "max": 2},
}


def findings(pool: dict[str, Any], *grants: dict[str, Any], **changes: Any) -> tuple[Finding, ...]:
    environment = environment_data(
        "eks",
        pools=[{**pool, **changes}],
        priorities=[{"name": "low", "value": 1, "level": "low", "preemptible": True}],
        tenants=[
            {"name": f"t{number}", "namespace": f"team-{number}", "pools": {"pool": grant}}
            for number, grant in enumerate(grants)
        ],
    )
    try:
        plan_of(environment)
    except SpecError as error:
        return error.findings
    return ()


@pytest.mark.parametrize(
    ("pool", "grants", "message"),
    [
        (
            EXCLUSIVE,
            [{"gpus": 16}, {"gpus": 8, "upTo": 16}],
            "24 x nvidia.com/gpu, but the pool has 16: t0 16",
        ),
        (SLICED, [{"slices": 5}, {"gpus": 1}], "9 x nvidia.com/gpu, but the pool has 8: t0 5, t1 4"),
        (
            PARTED,
            [{"profiles": {"2g.20gb": 32}}, {"gpus": 1}],
            "34 x nvidia.com/mig-2g.20gb, but the pool has 32",
        ),
        (EXCLUSIVE, [{"gpus": 4}] * 6, "t0 4, t1 4, t2 4, t3 4 and 2 more"),
    ],
)
def test_more_than_there_is(pool: dict[str, Any], grants: list[dict[str, Any]], message: str) -> None:
    (finding,) = findings(pool, *grants)
    assert finding.path == "pools[0]"
    assert message in finding.what
    assert "overcommit: true" in finding.remediation
    assert findings(pool, *grants, overcommit=True) == ()


@pytest.mark.parametrize(
    ("pool", "grants"),
    [
        (EXCLUSIVE, [{"gpus": 8}, {"gpus": 8}]),
        (EXCLUSIVE, [{"gpus": 16}, {"gpus": 0, "upTo": 16}]),
        (SLICED, [{"slices": 4}, {"gpus": 1}]),
        (PARTED, [{"profiles": {"2g.20gb": 32}}, {"profiles": {"3g.40gb": 16}}]),
    ],
)
def test_all_that_there_is(pool: dict[str, Any], grants: list[dict[str, Any]]) -> None:
    assert findings(pool, *grants) == ()


@pytest.mark.parametrize("wrong", [{"gpus": 17}, {"gpus": "8"}, {"profiles": {"1g.10gb": 1}}, {}])
def test_a_grant_that_is_wrong_by_itself_is_one_finding(wrong: dict[str, Any]) -> None:
    (finding,) = findings(EXCLUSIVE, {"gpus": 16}, wrong)
    assert finding.path.startswith("tenants[1].pools.pool")
