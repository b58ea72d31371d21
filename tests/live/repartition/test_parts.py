"""The parts of a repartition that need no cluster: windows, order, reading nodes, judging them, settings."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.environment.plan.capacity import parse_window
from gpupool.environment.plan.mig_strategy import overridden
from gpupool.environment.plan.resolve import read_plan
from gpupool.findings import GpupoolError
from gpupool.generators import generate
from gpupool.live.objects.repartition_mark import MARK
from gpupool.live.repartition.configs import Configs, _policy, held_key
from gpupool.live.repartition.journal import Journal, _stale
from gpupool.live.repartition.order import estimate, order
from gpupool.live.repartition.shapes import GpuPod, LiveNode, Mark, Shape, read_node
from gpupool.live.repartition.verify import missing, reached
from gpupool.live.repartition.windows import closes, is_open, opens

NOW = datetime(2026, 11, 21, 18, 30, tzinfo=UTC)  # a Saturday
SHAPE = Shape("pool", "2x3g", {"nvidia.com/mig-3g.40gb": 2})
NODE = LiveNode("n0", True, False, None, "pool", "2x3g", "success", SHAPE.slices, None)


def test_where_helm_made_the_policy_each_node_keeps_its_own_strategy() -> None:
    """The chart's strategy is for the old shapes or for the new ones, and both are on the nodes meanwhile."""
    plan = read_plan("prod")
    policy, _ = _policy(generate(plan))
    assert not any(overridden(pool, policy["spec"]) for pool in plan.pools)


@pytest.mark.parametrize(
    ("text", "ends", "next_opening"),
    [
        ("Sat 18:00-19:00 UTC", "2026-11-21 19:00", "2026-11-28 18:00"),
        ("Sat 02:00-06:00 UTC", None, "2026-11-28 02:00"),
        ("daily 22:00-02:00 UTC", None, "2026-11-21 22:00"),
        ("daily 18:30-18:31 UTC", "2026-11-21 18:31", "2026-11-21 18:30"),
        ("Sun,Fri 20:00-19:00 UTC", "2026-11-21 19:00", "2026-11-22 20:00"),
    ],
)
def test_windows(text: str, ends: str | None, next_opening: str) -> None:
    window = parse_window(text)
    until = closes(window, NOW)
    assert (until.strftime("%Y-%m-%d %H:%M") if until else None) == ends
    assert is_open(window, NOW) == (ends is not None)
    assert opens(window, NOW).strftime("%Y-%m-%d %H:%M") == next_opening
    assert is_open(None, NOW)


@given(st.integers(0, 7 * 1440), st.sampled_from(["Mon 23:00-01:00 UTC", "Tue,Sat 10:00-10:05 UTC"]))
def test_a_window_is_open_from_its_opening_on(minutes: int, text: str) -> None:
    window, moment = parse_window(text), NOW + timedelta(minutes=minutes)
    assert is_open(window, opens(window, moment))
    until = closes(window, moment)
    assert until is None or (moment < until and not is_open(window, until))


def test_the_order_and_what_it_costs() -> None:
    long = GpuPod("a", "long", 30, False, None)
    short = GpuPod("a", "short", 600, False, 90.0)
    nodes = [
        replace(NODE, name="busy", jobs=(long, short)),
        replace(NODE, name="free"),
        replace(NODE, name="one", jobs=(short,)),
        replace(NODE, name="away", ready=False),
    ]
    assert order(nodes) == ["away", "free", "one", "busy"]
    found = estimate(nodes, [(name, 300.0) for name in order(nodes)], 2, evict=False)
    assert [(row.node, row.batch, row.wait_seconds) for row in found.nodes] == [
        ("away", 1, 0.0),
        ("free", 1, 0.0),
        ("one", 2, 90.0),
        ("busy", 2, None),
    ]
    assert (found.seconds, found.open_end) == (690.0, True)
    evicted = estimate(nodes, [("busy", 300.0)], 1, evict=True)
    assert (evicted.seconds, evicted.open_end) == (900.0, False)


def pod(**changes: Any) -> dict[str, Any]:
    body: dict[str, Any] = {
        "metadata": {"name": "p", "namespace": "a"},
        "spec": {"containers": [{"resources": {"limits": {"nvidia.com/mig-3g.40gb": "1"}}}]},
        "status": {"phase": "Running", "startTime": "2026-11-21T18:20:00Z"},
    }
    for path, value in changes.items():
        body[path] = {**body[path], **value}
    return body


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        ({}, True),
        ({"status": {"phase": "Succeeded"}}, False),
        ({"spec": {"containers": [{"resources": {"limits": {"cpu": "1"}}}]}}, False),
        ({"metadata": {"ownerReferences": [{"kind": "DaemonSet"}]}}, False),
        ({"metadata": {"ownerReferences": [{"kind": "Job"}], "deletionTimestamp": "x"}}, True),
        (
            {
                "spec": {
                    "containers": [],
                    "initContainers": [{"resources": {"requests": {"nvidia.com/gpu": "1"}}}],
                }
            },
            True,
        ),
    ],
)
def test_which_pods_hold_a_gpu(changes: dict[str, Any], counts: bool) -> None:
    node = read_node({"metadata": {"name": "n"}, "spec": {}}, [pod(**changes)], NOW)
    assert bool(node.jobs) == counts


def test_what_is_read_of_a_node() -> None:
    body = {
        "metadata": {
            "name": "n",
            "labels": {"nvidia.com/device-plugin.config": "pool", "nvidia.com/mig.config": "all-disabled"},
            "annotations": {MARK: "damaged"},
        },
        "spec": {"unschedulable": True},
        "status": {"allocatable": {"nvidia.com/gpu": "0", "nvidia.com/mig-2g.20gb": "3", "cpu": "500m"}},
    }
    given_pod = pod(spec={"activeDeadlineSeconds": 900, "terminationGracePeriodSeconds": 5})
    node = read_node(body, [given_pod], NOW)
    assert (node.mig, node.slices, node.down, node.ready) == (
        None,
        {"nvidia.com/mig-2g.20gb": 3},
        True,
        False,
    )
    assert node.mark == Mark(cordoned_before=False)
    assert (node.jobs[0].remaining, node.jobs[0].grace) == (300.0, 5)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, None),
        ({"ready": False}, "not Ready"),
        ({"mig": None}, "labels request pool"),
        ({"mig_state": "rebooting"}, "running (rebooting)"),
        ({"mig_state": "failed"}, "reports failed"),
        ({"mig_state": None}, "reports nothing yet"),
        ({"slices": {"nvidia.com/gpu": 1}}, "offers 1 gpu instead of 2 mig-3g.40gb"),
    ],
)
def test_what_is_missing(change: dict[str, Any], said: str | None) -> None:
    found = missing(replace(NODE, **change), SHAPE)
    assert found is None if said is None else said in (found or "")


def test_the_last_word_of_a_failed_manager_counts_less_than_slices() -> None:
    failed = replace(NODE, mig_state="failed")
    assert not reached(failed, SHAPE)
    assert reached(failed, SHAPE, strict=False)
    assert not reached(replace(failed, slices={}), SHAPE, strict=False)


LIVE = Configs({"a": "one", "b": "other"}, {"2x3g": ["large"], "7x1g": ["tiny"]})
WANTED = Configs({"a": "two", "b": "changed as well"}, {"3x2g": ["small"]})


def test_no_step_changes_what_a_label_means_to_a_node_that_wears_it() -> None:
    steps = [LIVE, LIVE.held("a"), LIVE.both(WANTED, "a", hold=True), LIVE.after(WANTED, "a", {"7x1g"})]
    assert all(step.plugin["b"] == "other" for step in steps), (
        "other pools keep theirs, whatever the file says"
    )
    assert [step.plugin.get(held_key("a")) for step in steps] == [None, "one", "one", None]
    assert [step.plugin["a"] for step in steps] == ["one", "one", "two", "two"]
    assert {"2x3g", "3x2g", "7x1g"} <= set(steps[2].layouts or {})
    assert set(steps[3].layouts or {}) == {"all-disabled", "3x2g", "7x1g"}
    assert Configs(LIVE.plugin, None).after(Configs(WANTED.plugin, None), "a", set()).layouts is None


@pytest.mark.parametrize(
    ("holder", "age", "dead"),
    [
        (f"{socket.gethostname()}/{os.getpid()}/gone", 1, True),  # of this process, and it knows none
        (f"{socket.gethostname()}/4194305/x", 1, True),  # above any process' number (proc(5), pid_max)
        (f"{socket.gethostname()}/{os.getppid()}/x", 1, False),
        ("elsewhere/1/x", 1, False),
        ("elsewhere/1/x", 120, True),
        ("", 1, False),
    ],
    ids=[
        "ours and unknown",
        "no such process",
        "another of this machine",
        "elsewhere",
        "elsewhere and old",
        "none",
    ],
)
def test_whose_lock_is_taken_over(holder: str, age: int, dead: bool) -> None:
    renewed = (datetime.now(UTC) - timedelta(seconds=age)).isoformat()
    assert _stale({"holderIdentity": holder, "renewTime": renewed}) == dead


def test_a_journal_comes_back_and_a_damaged_one_does_not() -> None:
    journal = Journal("prod", "a", "now", "digest", True, {"n0": SHAPE}, {"n0": SHAPE}, {"plugin": "x"})
    assert Journal.from_text(journal.as_text()) == journal
    with pytest.raises(GpupoolError, match=r"is damaged .* gpupool assert"):
        Journal.from_text('{"pool": "a"}')
