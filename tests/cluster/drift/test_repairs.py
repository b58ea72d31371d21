"""Drift of nodes, slices, Karpenter and policies, one at a time: the right reason, a repair that works."""

from __future__ import annotations

import re

import pytest

from gpupool.live.drift import Drift
from tests.cluster.drift.own_cases import CASES, Case
from tests.cluster.drift.world import World

PROSE = re.compile(r"\b(or|then) |;")
"""Repairs that say what to decide, which no shell runs."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_drift_is_reported_with_its_reason_and_its_repair_works(case: Case, world: World) -> None:
    case.inject(world)
    node = world.node(case.pool) if "{node}" in case.repair else ""

    def right(drift: Drift) -> bool:
        reported = (drift.layer, drift.code) == (case.layer, case.kind)
        return reported and re.search(case.reason, drift.what) is not None

    drift = world.found(case.title, right, case.later)
    assert re.search(case.repair.replace("{node}", node), drift.remediation), drift.remediation
    case.cause(world)
    if not PROSE.search(drift.remediation):
        world.run(drift.remediation)
    world.clean(case.later)
