"""The last good state: kept in the cluster, compared with the file, and restored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from gpupool.environment.plan.resolve import read_plan
from gpupool.findings import GpupoolError
from gpupool.live.repartition.result import RepartitionStatus
from gpupool.live.repartition.run import RepartitionOptions
from gpupool.live.rollback import last_good
from gpupool.live.rollback import run as rollback
from tests.cluster.repartition.conftest import Lab

NOW = datetime(2026, 11, 21, 18, 30, tzinfo=UTC)


def test_states_are_kept_newest_first_and_not_for_ever(lab: Lab) -> None:
    api, plan = lab.kube.api, lab.plan
    with pytest.raises(GpupoolError, match="no state of lab has been found good yet; `gpupool assert lab`"):
        rollback.prepare(api, lab.file, "lab")
    assert last_good.read(api) is None
    for number in range(7):
        last_good.record(api, plan, f"# {number}\n", NOW + timedelta(minutes=number))
    assert [state.text for state in last_good.history(api)] == [f"# {n}\n" for n in (6, 5, 4, 3, 2)]
    last_good.record(api, plan, "# 3\n", NOW + timedelta(hours=1))
    assert [state.text for state in last_good.history(api)] == [f"# {n}\n" for n in (3, 6, 5, 4, 2)]
    assert rollback.prepare(api, lab.file, "lab").state.text == "# 3\n"
    assert rollback.prepare(api, lab.file, "lab", to="2").state.text == "# 6\n"
    newest = last_good.read(api)
    assert newest is not None
    assert (newest.environment, newest.found) == ("lab", NOW + timedelta(hours=1))
    with pytest.raises(GpupoolError, match="belongs to environment lab, and other"):
        rollback.prepare(api, lab.file, "other")


def test_nodes_go_back_even_from_the_middle_of_a_change(lab: Lab) -> None:
    """One pool is in the middle of a change, one has changed."""
    api, good_text = lab.kube.api, lab.file.read_text()
    before = {name: lab.shapes(name) for name in ("parted", "desk")}
    last_good.record(api, lab.plan, good_text, NOW)
    lab.share(1, mode="time-slicing", replicas=4)
    assert lab.repartition(pool="desk").status is RepartitionStatus.done
    lab.share(0, mode="time-slicing", replicas=3)
    # One node is done, one has begun.
    assert lab.dies(lab.mortal(dies_after=14))
    assert sorted(shape[2].get("nvidia.com/gpu", 0) for shape in lab.shapes().values()) == [0, 0, 3]
    assert any(shape[3] for shape in lab.shapes().values())
    rollback_plan = rollback.prepare(api, lab.file, "lab")
    assert any(line.startswith("-") and "replicas: 3" in line for line in rollback_plan.difference)
    assert any(line.startswith("+") and "3g.40gb" in line for line in rollback_plan.difference)
    with rollback.unpacked(rollback_plan.state) as file:
        good = read_plan(str(file))
    reported: list[str] = []
    watched = lab.mortal()
    results = rollback.nodes_back(watched, good, RepartitionOptions(), reported.append)
    assert not watched.hurt, "no node changes while jobs may come, though the file is another by now"
    assert watched.most_down == 1
    assert [(result.pool, result.status) for result in results] == [
        ("parted", RepartitionStatus.rolled_back),
        ("desk", RepartitionStatus.done),
    ], reported
    assert [result.notes for result in results] == [(), ()], "the rollback itself says what comes next"
    assert {name: lab.shapes(name) for name in ("parted", "desk")} == before
    assert lab.clean()
    assert rollback.write_back(rollback_plan) == [rollback_plan.file]
    assert rollback.write_back(rollback_plan) == [], "only what differs is written"
    assert rollback_plan.file.read_text() == good_text
    assert rollback.prepare(api, rollback_plan.file, "lab").difference == ()


def test_a_rollback_that_is_interrupted_goes_on(lab: Lab) -> None:
    """Ctrl-C names the verb that was under way, and that verb goes on where it was, not first back."""
    last_good.record(lab.kube.api, lab.plan, lab.file.read_text(), NOW)
    good, before = lab.plan, lab.shapes()
    lab.share(0, mode="time-slicing", replicas=3)
    assert lab.repartition().status is RepartitionStatus.done

    def enough(step: str) -> None:
        if step.startswith("change to"):
            raise KeyboardInterrupt

    (first,) = rollback.nodes_back(lab.mortal(), good, RepartitionOptions(), enough)
    assert first.status is RepartitionStatus.interrupted
    assert first.notes == ("continue with: gpupool rollback lab",)
    results = rollback.nodes_back(lab.mortal(), good, RepartitionOptions(), lab.notify)
    assert [(result.pool, result.status) for result in results] == [("parted", RepartitionStatus.done)]
    assert lab.shapes() == before
    assert lab.clean()
