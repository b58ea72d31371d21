"""A node that joins the pool while it is being repartitioned, and goes back with the others."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from gpupool.live.repartition.result import RepartitionStatus
from tests.cluster.repartition.conftest import LARGE, SMALL, Lab, slices

HAD = {"nvidia.com/mig-3g.40gb": 2}
NEW = {"nvidia.com/mig-2g.20gb": 3, "nvidia.com/mig-1g.10gb": 1}
CHANGE = "change to 2 mig-3g.40gb on node-2"


def test_a_node_that_never_had_the_old_shape_is_verified_in_it(
    lab: Lab, make_node: Callable[..., str]
) -> None:
    """The operator is slow to begin: what it said of the new layout still stands on the node."""
    lab.kube.api.delete("v1", "Node", "node-2")
    failing = {"simulated.gpupool.dev/fail": "mig", "simulated.gpupool.dev/delay": "500ms"}
    lab.kube.patch_node("node-0", {"metadata": {"annotations": failing}})
    lab.share(0, mode="mig", layout=SMALL)
    assert lab.repartition().status is RepartitionStatus.stopped
    lab.kube.patch_node("node-0", {"metadata": {"annotations": {"simulated.gpupool.dev/fail": None}}})
    labels = {"kubernetes.io/hostname": "node-2", **lab.plan.pool("parted").labels}
    make_node("node-2", labels=labels, annotations={"simulated.gpupool.dev/gpu": "a100-80gb"})
    lab.kube.wait("the new node's slices", lambda: offered(lab) == NEW)
    lab.share(0, mode="mig", layout=LARGE)  # `gpupool rollback` goes by the good file
    steps: list[tuple[str, dict[str, int]]] = []
    with contextlib.ExitStack() as slow:

        def watch(step: str) -> None:
            if "node-2" in step and (steps or step.startswith("cordon")):  # it may wait for its turn
                slow.close()
                steps.append((step, offered(lab)))
            if step.startswith("change to") and "node-2" in step:
                slow.enter_context(lab.kube.still("gpu-operator"))

        lab.notify = watch  # type: ignore[method-assign]  # this one lab listens, its class does not
        result = lab.repartition(rollback=True)
    assert result.status is RepartitionStatus.rolled_back
    assert steps[:3] == [
        ("cordon node-2", NEW),
        (CHANGE, NEW),
        ("waiting; node-2: it offers 1 mig-1g.10gb, 3 mig-2g.20gb instead of 2 mig-3g.40gb", NEW),
    ]
    assert [step for step in steps if step[0].startswith("uncordon")] == [("uncordon node-2", HAD)]
    names = ("node-0", "node-1", "node-2")
    assert lab.shapes() == dict.fromkeys(names, ("parted", "2x3g.40gb", HAD, False, None))
    assert not [row for row in result.rows if not row.state.startswith("old")], "whatever the file says now"
    assert lab.repartition().status is RepartitionStatus.nothing
    assert lab.clean()


def offered(lab: Lab) -> dict[str, int]:
    return slices(lab.kube.node("node-2"))
