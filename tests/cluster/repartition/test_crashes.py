"""Killed after every single write of a repartition, and taken up again: forwards, or back.

One repartition follows the other on the same two nodes, to and fro between two shapes, so that every point of
death is met on a cluster with a history. The shapes differ in everything that a shape can differ in: layout
and plugin settings. What may never happen is checked by the client before and after each write.
"""

from __future__ import annotations

from typing import Any

from infra import under_way
from operations.repartition.result import Status
from tests.cluster.repartition.conftest import LARGE, Lab

SHARED: dict[str, Any] = {"mode": "time-slicing", "replicas": 3}
PARTED: dict[str, Any] = {"mode": "mig", "layout": LARGE}
PLAIN_WRITES = 20
"""So many writes a repartition of two nodes has at least; fewer would mean that points are not met."""


def offers(lab: Lab) -> dict[str, dict[str, int]]:
    """Node -> slices, once it is seen that nothing is cordoned, marked or held back."""
    shapes = lab.shapes()
    assert all(shape[0] == "parted" and shape[3:] == (False, None) for shape in shapes.values()), shapes
    return {name: shape[2] for name, shape in shapes.items()}


def test_every_write_may_be_the_last(lab: Lab) -> None:
    lab.spec["pools"][0]["nodes"]["names"].remove("node-2")
    lab.kube.api.delete("v1", "Node", "node-2")
    lab.job("neighbour", "other", "nvidia.com/gpu")
    other = lab.shapes("desk")
    now, asked = PARTED, SHARED
    met = list[str]()
    while True:
        point = len(met) + 1
        before = offers(lab)
        lab.share(0, **asked)
        api = lab.mortal(dies_after=point)
        whole = not lab.dies(api)
        begun = under_way.find(lab.kube.api) is not None
        again = lab.mortal()
        result = lab.repartition(again, rollback=begun and point % 2 == 1)
        assert max(api.most_down, again.most_down) <= 1, met
        assert lab.clean()
        after = offers(lab)
        if result.status is Status.rolled_back:
            assert after == before, api.writes
        else:
            # Killed before it had begun, or after it had ended, there is nothing to take back.
            assert result.status is (Status.done if begun or point == 1 else Status.nothing), api.writes
            wanted = lab.plan.pool("parted").slices_per_node
            assert all(have == {k: v for k, v in wanted.items() if v} for have in after.values()), after
            now, asked = asked, now
        if whole:
            break
        met.append(api.writes[-1])
    assert len(met) > PLAIN_WRITES, met
    assert lab.shapes("desk") == other
    assert lab.running() == ["neighbour"], "jobs of other pools never notice"
