"""Objects that somebody has deleted or edited: each is told at once, and refresh and up mend them."""

from __future__ import annotations

import re

from operations.drift import Drift
from tests.cluster.drift.object_cases import CASES, Case
from tests.cluster.drift.own_cases import UPON_SETTINGS
from tests.cluster.drift.own_cases import Case as OwnCase
from tests.cluster.drift.world import World


def matches(case: Case, drift: Drift) -> bool:
    return (
        (drift.layer, drift.kind) == (case.layer, case.kind)
        and drift.object.startswith(case.object)
        and re.search(case.reason, drift.reason) is not None
        and (not case.by or drift.by == case.by)
        and (not case.path or drift.path == case.path)
    )


def test_each_edit_is_told_with_its_reason_and_refresh_and_up_mend_them(world: World) -> None:
    """One after the other, each the only news; one command is what is printed for all of them."""
    before: tuple[Drift, ...] = ()
    commands = set()
    for case in CASES:
        case.inject(world)
        now = world.drifts()
        news = [drift for drift in now if drift not in before]
        told = [(d.layer, d.kind, d.object, d.path, d.by, d.reason) for d in news]
        assert len(news) == 1, f"{case.title}: {told}"
        assert matches(case, news[0]), f"{case.title}: {told}"
        commands.add(news[0].repair)
        before = now
    assert len(before) == len(CASES)
    mend = f"gpupool refresh {world.commands.file} && gpupool up {world.commands.file}"
    assert commands == {mend}
    repairs = [_upon_settings(world, case) for case in UPON_SETTINGS]
    # One of them starts the node's device plugin anew after it; all the others are the command itself.
    assert all(repair.startswith(mend) for repair in repairs)
    world.run(max(repairs, key=len))
    world.clean()


def _upon_settings(world: World, case: OwnCase) -> str:
    case.inject(world)

    def right(drift: Drift) -> bool:
        return drift.kind == case.kind and re.search(case.reason, drift.reason) is not None

    return world.found(case.title, right).repair
