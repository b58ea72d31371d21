"""Karpenter at work and the operator at work are no drift: looked at again and again while they are."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gpupool.findings import Category
from gpupool.live.drift import Drift
from tests.cluster.drift.world import POOL_LABEL, World


@contextmanager
def looking(world: World) -> Iterator[list[Drift]]:
    """Everything that is reported from the beginning to the end of the block."""
    reported: list[Drift] = []
    failed: list[Exception] = []
    stop, rounds = threading.Event(), threading.Semaphore(0)

    def examine() -> None:
        while not stop.is_set():
            try:
                reported.extend(world.examine().drifts)
            except Exception as error:
                failed.append(error)
                return
            finally:
                rounds.release()

    thread = threading.Thread(target=examine)
    thread.start()
    try:
        yield reported
        assert rounds.acquire(timeout=300)
    finally:
        stop.set()
        thread.join()
    assert not failed, failed


def alarms(reported: list[Drift]) -> list[tuple[str, str, str]]:
    return [(drift.code, drift.object, drift.what) for drift in reported if drift.category is Category.drift]


def _pods(world: World, names: list[str]) -> None:
    for name in names:
        container = {
            "name": "work",
            "image": "example/work:1",
            "resources": {"limits": {"nvidia.com/gpu": 1}},
        }
        spec = {
            "nodeSelector": {POOL_LABEL: "batch"},
            "tolerations": [{"operator": "Exists"}],
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
        }
        labels = {"gpupool.dev/shares-gpu": "true"}
        metadata = {"name": name, "namespace": "default", "labels": labels}
        world.api.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def test_scaling_up_and_down_is_no_drift(world: World) -> None:
    names = ["one", "two"]
    with looking(world) as reported:
        try:
            with world.kube.at_once():
                _pods(world, names)
            world.kube.wait("two nodes serve", lambda: len(world.kube.running()) == 2, 90)
        finally:
            for name in names:
                world.api.delete("v1", "Pod", name, "default", grace=0)
        world.kube.wait(
            "the nodes have gone", lambda: not world.kube.nodes("karpenter.sh/nodepool=batch"), 120
        )
    assert not alarms(reported)
    # The checks have seen the work, or they would prove nothing.
    assert {drift.code for drift in reported} & {"starting", "leaving", "claim-starting"}
    world.clean()


@pytest.mark.parametrize("pool", ["models", "notebooks"])
def test_the_operator_at_work_is_no_drift(world: World, pool: str) -> None:
    """Its settings change and it takes a while on the node: partitions, or starts the plugin."""
    node = world.node(pool)
    world.annotate(node, "simulated.gpupool.dev/delay", "2s")
    before = world.kube.node(node)["metadata"]["annotations"]["simulated.gpupool.dev/state"]
    try:
        with looking(world) as reported:
            # Another time in the policy's template is a new roll-out of every operand.
            world.edit(
                "nvidia.com/v1",
                "ClusterPolicy",
                "cluster-policy",
                {"spec": {"daemonsets": {"annotations": {"rolled": pool}}}},
                by="gpupool",
            )
            world.kube.wait(
                "the operands are of the new roll-out",
                lambda: (
                    world.kube.node(node)["metadata"]["annotations"].get("simulated.gpupool.dev/state")
                    not in (None, before)
                ),
                60,
            )
        assert not alarms(reported)
    finally:
        world.annotate(node, "simulated.gpupool.dev/delay", None)
        world.edit(
            "nvidia.com/v1",
            "ClusterPolicy",
            "cluster-policy",
            {"spec": {"daemonsets": {"annotations": None}}},
            by="gpupool",
        )
    world.clean()
