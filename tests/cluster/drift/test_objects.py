"""Objects that somebody has deleted or edited, one at a time: told at once, mended by the printed command."""

from __future__ import annotations

import re

import pytest

from gpupool.drift import Drift
from tests.cluster.drift.object_cases import CASES, Case
from tests.cluster.drift.world import World


def matches(case: Case, drift: Drift) -> bool:
    return (
        (drift.layer, drift.kind) == (case.layer, case.kind)
        and drift.object.startswith(case.object)
        and re.search(case.reason, drift.reason) is not None
        and (not case.by or drift.by == case.by)
        and (not case.path or drift.path == case.path)
    )


@pytest.mark.parametrize("case", CASES, ids=[case.title for case in CASES])
def test_an_edit_is_the_only_difference_and_refresh_and_up_undo_it(case: Case, world: World) -> None:
    case.inject(world)
    drifts = world.drifts()
    reported = [(d.layer, d.kind, d.object, d.path, d.by, d.reason) for d in drifts]
    assert len(drifts) == 1, reported
    assert matches(case, drifts[0]), reported
    assert drifts[0].repair == f"gpupool refresh {world.commands.file} && gpupool up {world.commands.file}"
    world.run(drifts[0].repair)
    world.clean()
