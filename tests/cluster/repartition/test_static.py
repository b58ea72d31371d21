"""A repartition of nodes that exist already: layouts, replicas, modes, jobs, failures."""

from __future__ import annotations

from typing import Any

from tests.cluster.repartition.conftest import SMALL, Lab


def test_a_layout_goes_node_by_node(lab: Lab) -> None:
    other = lab.shapes("desk")
    lab.share(0, mode="mig", layout=SMALL)
    api = lab.mortal()
    result = lab.repartition(api)
    print(len(api.writes), api.writes)
    assert result.status == "done", result
    assert api.most_down == 1
    lab.settled()
    assert lab.shapes("desk") == other
    assert lab.clean()
