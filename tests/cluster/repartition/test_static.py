"""A repartition of nodes that exist already: layouts, replicas, modes, jobs, failures."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpupool.findings import GpupoolError
from gpupool.generators import generate
from gpupool.live.objects import repartition_mark, sharing_changes
from gpupool.live.repartition import journal
from gpupool.live.repartition.owner import OtherEnvironmentError
from gpupool.live.repartition.result import RepartitionStatus
from gpupool.live.repartition.run import RepartitionOptions, dry_run
from gpupool.live.rollback import run as rollback
from tests.cluster.repartition.conftest import LARGE, LEASE, SMALL, Lab

NODES = ["node-0", "node-1", "node-2"]
LARGE_SLICES = {"nvidia.com/mig-3g.40gb": 2}
SMALL_SLICES = {"nvidia.com/mig-2g.20gb": 3, "nvidia.com/mig-1g.10gb": 1}
NEW = ("parted", "3x2g.20gb_1x1g.10gb", SMALL_SLICES, False, None)
OLD = ("parted", "2x3g.40gb", LARGE_SLICES, False, None)


def fail(lab: Lab, node: str, how: str | None) -> None:
    lab.kube.patch_node(node, {"metadata": {"annotations": {"simulated.gpupool.dev/fail": how}}})


def test_a_layout_goes_node_by_node_and_leaves_nothing_behind(lab: Lab) -> None:
    other = lab.shapes("desk")
    lab.share(0, mode="mig", layout=SMALL)
    planned = dry_run(lab.kube.api, lab.plan, "parted")
    assert planned.status is RepartitionStatus.planned
    assert planned.estimate is not None
    assert [(row.node, row.batch) for row in planned.estimate.nodes] == [
        ("node-0", 1),
        ("node-1", 2),
        ("node-2", 3),
    ]
    assert planned.estimate.seconds == 3 * 300
    assert lab.shapes() == dict.fromkeys(NODES, OLD), "a dry run changes nothing"
    api = lab.mortal()
    assert lab.repartition(api).status is RepartitionStatus.done
    assert api.most_down == 1
    assert lab.shapes() == dict.fromkeys(NODES, NEW)
    assert lab.shapes("desk") == other
    assert lab.clean()
    # The MIG manager starts again with the last ConfigMap, and its state is `pending` for a moment.
    lab.settled()
    before = lab.labels()
    assert lab.repartition().status is RepartitionStatus.nothing
    lab.apply()
    lab.settled()
    assert lab.labels() == before, "`up` has nothing to change on the nodes"


def test_modes_come_and_go_cleanly(lab: Lab) -> None:
    """Time-slicing off, then slices of another kind: a node says what it is, with nothing left over."""
    name = "desk"
    steps: list[tuple[dict[str, Any], dict[str, int], str, str]] = [
        ({"mode": "exclusive"}, {"nvidia.com/gpu": 1}, "1", "none"),
        (
            {"mode": "time-slicing", "replicas": 4},
            {"nvidia.com/gpu": 4},
            "4",
            "time-slicing",
        ),
        ({"mode": "mig", "layout": SMALL}, SMALL_SLICES, "0", "none"),
        ({"mode": "exclusive"}, {"nvidia.com/gpu": 1}, "1", "none"),
    ]
    for sharing, offered, replicas, strategy in steps:
        lab.spec["pools"][1]["sharing"] = sharing
        assert lab.repartition(pool=name).status is RepartitionStatus.done
        assert lab.clean()

        def reported(offered: Any = offered, replicas: str = replicas, strategy: str = strategy) -> bool:
            lab.settled()
            labels = lab.kube.node("other")["metadata"]["labels"]
            assert labels["nvidia.com/gpu.replicas"] == replicas
            assert labels["nvidia.com/gpu.sharing-strategy"] == strategy
            stale = [
                key
                for key in labels
                if key.startswith("nvidia.com/mig-") and key.split(".count")[0] not in offered
            ]
            return not [key for key in stale if key.endswith(".count")]

        lab.kube.wait("labels that fit", reported)
        plugin, mig, slices, cordoned, mark = lab.shapes(name)["other"]
        assert (plugin, slices, cordoned, mark) == (name, offered, False, None)
        # Without a layout of ours the operator may name its own default.
        assert mig in (
            [lab.plan.pool(name).mig_config] if sharing["mode"] == "mig" else (None, "all-disabled")
        )
        lab.apply()
        lab.settled()


def test_jobs_are_waited_for(lab: Lab) -> None:
    """A job that ends by itself ends as it would have; those of other pools are left alone."""
    lab.job("long", "node-1", "nvidia.com/mig-3g.40gb")
    lab.job("neighbour", "other", "nvidia.com/gpu")
    lab.share(0, mode="mig", layout=SMALL)
    with lab.beside("default/long") as (api, results):
        node = lab.shapes()["node-1"]
        assert node[:3] == OLD[:3]
        assert node[3], "no further job gets there"
        assert sorted(lab.running()) == ["long", "neighbour"]
        # It ends by itself.
        lab.kube.api.delete("v1", "Pod", "long", "default", grace=0)
    assert results[0].status is RepartitionStatus.done
    assert not [write for write in api.writes if "eviction" in write]
    assert lab.running() == ["neighbour"]
    assert api.most_down == 1


def test_eviction_keeps_to_grace_and_budgets(lab: Lab) -> None:
    """One job needs its time to end, which the client checks at every write; one may not go at all yet."""
    lab.job("saves", "node-0", "nvidia.com/mig-3g.40gb", **{"simulated-stop": "2s"})
    lab.job("guarded", "node-1", "nvidia.com/mig-3g.40gb")
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}
    meta = {"name": "guard", "namespace": "default"}
    lab.kube.apply(
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": budget}
    )

    def healthy() -> Any:
        return lab.kube.get("policy/v1", "PodDisruptionBudget", "guard", "default")["status"][
            "currentHealthy"
        ]

    lab.kube.wait("the budget is reckoned with", healthy)
    lab.share(0, mode="mig", layout=SMALL)
    with lab.beside("disruption budget", evict=True) as (api, results):
        assert "guarded" in lab.running()
        lab.kube.api.delete("policy/v1", "PodDisruptionBudget", "guard", "default")
    assert results[0].status is RepartitionStatus.done
    assert lab.shapes() == dict.fromkeys(NODES, NEW)
    assert api.most_down == 1


def test_a_node_that_fails_goes_back_and_the_rest_stays(lab: Lab) -> None:
    # So that the manager is seen at work, whatever the machine.
    lab.kube.patch_node("node-1", {"metadata": {"annotations": {"simulated.gpupool.dev/delay": "500ms"}}})
    fail(lab, "node-1", "mig")
    lab.share(0, mode="mig", layout=SMALL)
    api = lab.mortal()
    result = lab.repartition(api)
    assert result.status is RepartitionStatus.stopped
    assert api.most_down == 1
    # It failed before it touched anything, and works as before; no further node was begun.
    assert lab.shapes() == {"node-0": NEW, "node-1": OLD, "node-2": OLD}
    states = {row.node: row.state for row in result.rows}
    assert states == {"node-0": "new", "node-1": "old; the MIG manager reports failed", "node-2": "old"}
    assert result.notes[-2:] == (
        "continue with: gpupool repartition lab parted",
        "undo: gpupool repartition lab parted --rollback",
    )
    with pytest.raises(repartition_mark.UnderWayError, match="gpupool repartition lab parted --rollback"):
        repartition_mark.require_none(lab.kube.api, "lab")
    fail(lab, "node-1", None)
    assert lab.repartition().status is RepartitionStatus.done
    assert lab.shapes() == dict.fromkeys(NODES, NEW)
    assert lab.clean()


def test_a_node_that_comes_up_in_neither_shape_stays_out(lab: Lab) -> None:
    fail(lab, "node-0", "plugin")
    lab.share(0, mode="mig", layout=SMALL)
    result = lab.repartition(timeout=8.0)
    assert result.status is RepartitionStatus.stopped
    assert lab.shapes()["node-0"][2:4] == ({}, True), "no job may go there"
    assert "have neither the old nor the new layout and stay cordoned: node-0" in result.notes[0]
    assert lab.shapes()["node-1"] == OLD
    fail(lab, "node-0", None)
    assert lab.repartition(rollback=True).status is RepartitionStatus.rolled_back
    assert lab.shapes() == dict.fromkeys(NODES, OLD)
    assert lab.clean()


def test_a_node_that_is_down_anyway_counts(lab: Lab) -> None:
    """And somebody who has had enough is obeyed: what waits is given back."""
    lab.kube.patch_node("node-2", {"spec": {"unschedulable": True}})
    lab.share(0, mode="mig", layout=SMALL)

    def enough(step: str) -> None:
        if "the maximum number of nodes is unavailable" in step and lab.shapes()["node-2"][4] is None:
            raise KeyboardInterrupt

    lab.notify = enough  # type: ignore[method-assign]
    api = lab.mortal()
    assert lab.repartition(api).status is RepartitionStatus.interrupted
    assert api.most_down == 1
    assert lab.shapes()["node-2"] == (*NEW[:3], True, None), "changed, and left cordoned as it was found"
    assert lab.shapes()["node-0"] == OLD
    assert lab.kube.api.get(*LEASE) is None, "the lock is given back"
    lab.kube.patch_node("node-2", {"spec": {"unschedulable": None}})
    lab.notify = lambda step: None  # type: ignore[method-assign]
    assert lab.repartition().status is RepartitionStatus.done
    assert lab.shapes() == dict.fromkeys(NODES, NEW)


def test_an_end_names_the_pools_that_remain(lab: Lab) -> None:
    lab.share(0, mode="mig", layout=SMALL)
    lab.share(1, mode="time-slicing", replicas=3)
    first, back = lab.repartition(pool="desk").notes
    assert first == (
        "quotas and the policies' parameters follow once parted is done too; next: "
        "gpupool repartition lab parted"
    )
    assert "gpupool refresh lab && gpupool up lab" in back
    assert lab.repartition(pool="parted").notes[0] == (
        "`gpupool up lab` no longer changes its nodes, and records it in its state"
    )


def test_a_file_that_was_put_back_is_noticed_and_nothing_stays(lab: Lab) -> None:
    """What a repartition made and neither file nor state have is reported, and removed once nothing follows
    it."""
    api, before = lab.kube.api, generate(lab.plan)
    maps = {m.name for m in before if m.kind == "ConfigMap" and m.namespace == "gpu-operator"}
    state = {"resources": [{"inputs": {"metadata": {"name": name}}} for name in maps]}
    assert not repartition_mark.unseen(api, before, state)
    lab.share(0, mode="mig", layout=SMALL)
    assert lab.repartition().status is RepartitionStatus.done
    assert not repartition_mark.unseen(api, generate(lab.plan), state), "`up` has something to note"
    made = repartition_mark.in_force(api) - maps
    assert len(made) == 1
    lab.share(0, mode="mig", layout=LARGE)
    assert repartition_mark.unseen(api, before, state)
    (note,) = sharing_changes.notes(api, lab.plan, before, unseen=True)
    assert note.startswith("pool parted: 3 nodes have other slices than the file says, by a repartition")
    assert "gpupool repartition lab parted" in note
    assert repartition_mark.clear_left(api, before) == (), "the operator follows it"
    lab.apply()
    assert repartition_mark.clear_left(api, dataclasses.replace(before, environment="other")) == ()
    assert repartition_mark.clear_left(api, before) == tuple(made)
    left = {row["metadata"]["name"] for row in api.list("v1", "ConfigMap", "gpu-operator")}
    assert left & (maps | made) == maps


def test_up_warns_of_nodes_only_where_slices_change(lab: Lab) -> None:
    lab.job("busy", "other", "nvidia.com/gpu")
    lab.share(1, mode="time-slicing", replicas=3)
    reported = sharing_changes.notes(lab.kube.api, lab.plan, generate(lab.plan))
    assert [note.partition(". To")[0] for note in reported] == [
        "pool desk: `up` changes how GPUs are shared on 1 node, and 1 GPU pod runs there"
    ]
    lab.share(1, mode="time-slicing", replicas=2)
    same = generate(lab.plan)
    other = lab.kube.api.get("nvidia.com/v1", "ClusterPolicy", "cluster-policy")
    name = other["spec"]["devicePlugin"]["config"]["name"]
    live = lab.kube.api.get("v1", "ConfigMap", name, "gpu-operator")["data"]["desk"]
    lab.kube.api.patch("v1", "ConfigMap", name, {"data": {"desk": f"# by hand\n{live}"}}, "gpu-operator")
    assert sharing_changes.notes(lab.kube.api, lab.plan, same) == ()


def test_a_cluster_of_another_environment_is_left_alone(lab: Lab) -> None:
    """The pools of the file are there under the same names: nothing else would keep it from taking over."""
    before = lab.shapes()
    lab.spec["metadata"]["name"] = "mine"
    lab.share(0, mode="mig", layout=SMALL)
    api = lab.mortal()
    ways: dict[str, Callable[[], object]] = {
        "run": lambda: lab.repartition(api, evict=True, now=True),
        "back": lambda: lab.repartition(api, rollback=True),
        "dry run": lambda: dry_run(api, lab.plan, "parted"),
        "rollback": lambda: rollback.prepare(api, lab.file, "mine"),
    }
    for rollback_plan, go in ways.items():
        with pytest.raises(OtherEnvironmentError, match="belongs to environment lab, and mine would"):
            go()
        assert (api.writes, lab.shapes()) == ([], before), rollback_plan


def test_who_may_not_begin(lab: Lab) -> None:
    other = (datetime.now(UTC) + timedelta(days=3)).strftime("%a")
    lab.spec["pools"][0]["maintenance"] = {"window": f"{other} 02:00-04:00 UTC"}
    lab.share(0, mode="mig", layout=SMALL)
    with pytest.raises(GpupoolError, match=rf"opens at {other} .* 02:00 UTC; use --wait"):
        lab.repartition()
    with pytest.raises(GpupoolError, match="no pool 'missing'; pools: parted, desk"):
        lab.repartition(pool="missing")
    with journal.locked(lab.kube.api), pytest.raises(journal.BusyError, match="another run is in progress"):
        lab.repartition(now=True)
    assert lab.shapes() == dict.fromkeys(NODES, OLD)
    api = lab.mortal(dies_after=7)
    assert lab.dies(api, now=True)
    assert [write for write in api.writes if "/nodes/" in write] == ["PATCH /api/v1/nodes/node-0"] * 2
    with pytest.raises(GpupoolError, match="a repartition of pool parted started at"):
        lab.repartition(pool="desk")
    lab.share(0, mode="mig", layout={"7g.80gb": 1})
    with pytest.raises(GpupoolError, match="different configuration than that of the file"):
        lab.repartition(now=True)
    # The window is shut: the node that was begun is brought to an end, and no other is begun.
    lab.share(0, mode="mig", layout=SMALL)
    result = lab.repartition()
    assert result.status is RepartitionStatus.shut
    assert {row.node: row.state for row in result.rows} == {"node-0": "new", "node-1": "old", "node-2": "old"}
    assert (
        dry_run(lab.kube.api, lab.plan, "parted", RepartitionOptions())
        .notes[0]
        .startswith("maintenance window: opens")
    )
    assert lab.repartition(now=True).status is RepartitionStatus.done
