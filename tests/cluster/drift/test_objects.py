"""Objects that somebody has deleted or edited: reported at once, put right by the printed command.

All of them are injected, as many at a time as are about different objects, and judged as a set; then each
alone.
"""

from __future__ import annotations

import re

import pytest

from gpupool.live.drift import Drift
from tests.cluster.drift.object_cases import CASES, Case
from tests.cluster.drift.world import World


def rounds() -> list[list[Case]]:
    """The cases, no two about one object in a round."""
    found: list[list[Case]] = []
    for case in CASES:
        free = (one for one in found if case.object not in {other.object for other in one})
        taken = next(free, None)
        if taken is None:
            found.append([case])
        else:
            taken.append(case)
    return found


def matches(case: Case, drift: Drift) -> bool:
    return (
        (drift.layer, drift.code) == (case.layer, case.kind)
        and drift.object.startswith(case.object)
        and re.search(case.reason, drift.what) is not None
        and (not case.by or drift.by == case.by)
        and (not case.path or drift.path == case.path)
    )


def judge(cases: list[Case], world: World) -> None:
    """Inject `cases`; each is reported once, nothing else is, and the printed repair puts all right."""
    for case in cases:
        case.inject(world)
    drifts = world.drifts()
    reported = [(d.layer, d.code, d.object, d.path, d.by, d.what) for d in drifts]
    for case in cases:
        assert len([drift for drift in drifts if matches(case, drift)]) == 1, (case.title, reported)
    assert len(drifts) == len(cases), reported
    repair = f"gpupool refresh {world.commands.file} && gpupool up {world.commands.file}"
    assert {drift.remediation for drift in drifts} == {repair}
    world.run(repair)
    world.clean()


@pytest.mark.parametrize("cases", rounds(), ids=lambda cases: f"{len(cases)} at once")
def test_edits_of_different_objects_are_reported_each_by_itself_and_repaired_together(
    cases: list[Case], world: World
) -> None:
    judge(cases, world)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_an_edit_is_the_only_difference_and_refresh_and_up_repair_it(case: Case, world: World) -> None:
    judge([case], world)
