"""What happens to nodes, for every kind of setting that might touch them."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.review.report.effects.order import node_effects
from gpupool.review.report.effects.sentences import in_words
from gpupool.review.report.model import NodeEffect
from tests.review.report.plans import EKS, STATIC, Data, Edit, edited, state


def effects(data: Data, edit: Edit) -> tuple[NodeEffect, ...]:
    return tuple(map(in_words, node_effects(state(data), state(edited(data, edit)))))


def sentences_of(data: Data, edit: Edit) -> list[tuple[str, str, str]]:
    """Kind, pool and what becomes of pods, in order."""
    return [(effect.kind, effect.pool, effect.pods) for effect in effects(data, edit)]


def pool(index: int, **changes: Any) -> Edit:
    return lambda data: data["pools"][index].update(changes)


def nodes(index: int, **changes: Any) -> Edit:
    return lambda data: data["pools"][index]["nodes"].update(changes)


def section(name: str, **changes: Any) -> Edit:
    return lambda data: data.setdefault(name, {}).update(changes)


PLUGIN = ("restarted", "", "kept")
"""The device plugin, another of the operator's daemonsets, or all of them."""
BOTH = [("replaced", "shared", "evicted")] * 2
KARPENTER: dict[str, tuple[Edit, list[tuple[str, str, str]]]] = {
    "replicas": (
        pool(0, sharing={"mode": "time-slicing", "replicas": 5}),
        [PLUGIN, ("restarted", "shared", "kept")],
    ),
    "mode without MIG": (
        pool(0, sharing={"mode": "mps", "replicas": 4}),
        [PLUGIN, PLUGIN, ("restarted", "shared", "kept")],
    ),
    "into MIG": (pool(0, sharing={"mode": "mig", "layout": {"3g.40gb": 2}}), [PLUGIN, PLUGIN, *BOTH]),
    "layout": (
        pool(1, sharing={"mode": "mig", "layout": {"1g.10gb": 7}}),
        [PLUGIN, ("replaced", "parted", "evicted")],
    ),
    "labels": (pool(0, labels={"a": "b"}), BOTH),
    "taints": (pool(0, taints=[]), BOTH),
    "taints with another key": (pool(0, taints=[{"key": "gpu", "effect": "NoSchedule"}]), [PLUGIN, *BOTH]),
    "expireAfter": (nodes(0, expireAfter="720h"), BOTH),
    "consolidateAfter": (nodes(0, consolidateAfter="1h"), [("stay", "", "kept")]),
    "window": (pool(0, maintenance={"maxUnavailable": 2}), [("stay", "", "kept")]),
    "description": (pool(0, description="other words"), [("stay", "", "kept")]),
    "nothing": (lambda _: None, []),
    "zones": (nodes(0, zones=["us-east-1a"]), BOTH),
    "max lowered": (nodes(1, max=1), [("stay", "parted", "kept")]),
    "max raised": (nodes(1, max=3), [("stay", "", "kept")]),
    "only spot": (nodes(0, spotShare=1), [("deleted", "shared", "evicted"), BOTH[0]]),
    "no spot": (nodes(0, spotShare=0), [("deleted", "shared", "evicted")]),
    "warm": (nodes(1, warm=1), [("started", "parted", "kept")]),
    "image": (section("karpenter", amiAlias="al2023@v20260901"), [("replaced", "parted", "evicted"), *BOTH]),
    "role": (section("karpenter", nodeRole="others"), [("replaced", "parted", "evicted"), *BOTH]),
    "karpenter's version": (section("karpenter", version="1.13.0"), [("stay", "", "kept")]),
    "karpenter's values": (section("karpenter", values={"replicas": 1}), [("stay", "", "kept")]),
    "operator's version": (section("gpuOperator", version="v26.3.3"), [("restarted", "", "kept")]),
    "operator's values": (section("gpuOperator", values={"toolkit": {"x": 1}}), [("restarted", "", "kept")]),
    "operator gone": (section("gpuOperator", install=False), [("restarted", "", "killed")]),
    "the cluster's version": (section("cluster", kubernetesVersion="1.35"), [("stay", "", "kept")]),
    "a tenant's quota": (
        lambda data: data["tenants"][0]["pools"]["shared"].update(gpus=1),
        [("stay", "", "kept")],
    ),
    "renamed": (
        lambda data: (
            data["pools"][0].update(name="other"),
            data["tenants"][0].update(pools={"other": {"gpus": 8}}),
        ),
        [PLUGIN, *[("deleted", "shared", "evicted")] * 2],
    ),
}
STATIC_NODES: dict[str, tuple[Edit, list[tuple[str, str, str]]]] = {
    "replicas": (
        pool(0, sharing={"mode": "time-slicing", "replicas": 3}),
        [PLUGIN, ("restarted", "one", "kept")],
    ),
    "labels": (pool(0, labels={"a": "b"}), [("relabelled", "one", "kept")]),
    "an evicting taint": (
        pool(0, taints=[{"key": "gpu", "effect": "NoExecute"}]),
        [("relabelled", "one", "evicted"), PLUGIN],
    ),
    "a taint": (
        pool(0, taints=[{"key": "gpu", "effect": "NoSchedule"}]),
        [("relabelled", "one", "kept"), PLUGIN],
    ),
    "into MIG": (
        pool(0, sharing={"mode": "mig", "layout": {"3g.40gb": 2}}),
        [("relabelled", "one", "evicted"), PLUGIN, PLUGIN],
    ),
    "a node leaves": (nodes(0, names=["n1"]), [("relabelled", "one", "kept")]),
    "a node joins": (nodes(0, names=["n1", "n2", "n4"]), [("relabelled", "one", "kept")]),
    "a node moves": (
        lambda data: (
            data["pools"][0]["nodes"].update(names=["n1"]),
            data["pools"][1]["nodes"].update(names=["n3", "n2"]),
        ),
        [("relabelled", "one", "kept")],
    ),
    "another selector": (
        nodes(2, selector={"rack": "8"}),
        [("relabelled", "found", "kept"), ("relabelled", "found", "kept")],
    ),
    "labels of selected nodes": (pool(2, labels={"a": "b"}), [("relabelled", "found", "kept")]),
}


@pytest.mark.parametrize("name", KARPENTER)
def test_karpenter(name: str) -> None:
    edit, expected = KARPENTER[name]
    assert sentences_of(EKS, edit) == expected


@pytest.mark.parametrize("name", STATIC_NODES)
def test_static(name: str) -> None:
    edit, expected = STATIC_NODES[name]
    assert sentences_of(STATIC, edit) == expected


def test_budget_and_window_are_those_after_the_change() -> None:
    def edit(data: Data) -> None:
        data["pools"][0].update(
            labels={"a": "b"}, maintenance={"maxUnavailable": 2, "window": "daily 01:00-02:00 UTC"}
        )

    first, second = effects(EKS, edit)
    assert (first.at_once, first.window, first.nodes_max) == (2, "daily 01:00-02:00 UTC", 2)
    assert first.what.startswith("up to 2 nodes are replaced, 2 at a time, daily 01:00-02:00 UTC; ")
    assert {first.node_pool, second.node_pool} == {"shared", "shared-spot"}


def test_nodes_of_a_pool_that_goes_go_at_once_and_first() -> None:
    def edit(data: Data) -> None:
        del data["pools"][1]
        data["pools"][0]["labels"] = {"a": "b"}

    found = [effect for effect in effects(EKS, edit) if effect.disruptive]
    assert [effect.kind for effect in found] == ["deleted", "replaced", "replaced"]
    assert (found[0].at_once, found[0].window) == (None, None)
    assert "all at once" in found[0].what


def test_pools_without_a_window_come_before_those_with_one() -> None:
    def edit(data: Data) -> None:
        for each in data["pools"]:
            each["labels"] = {"a": "b"}

    assert [effect.pool for effect in effects(EKS, edit)] == ["parted", "shared", "shared"]


def test_another_platform_is_another_cluster() -> None:
    found = node_effects(state(EKS), state(STATIC))
    assert [effect.kind for effect in found] == ["relabelled"] * 3 + ["deleted"] * 3


@pytest.mark.parametrize(
    ("before", "after", "pods", "certain"),
    [
        ("v25.10.1", "v26.7.0", "evicted", True),  # 580.105.08 to 595.91.07
        ("v26.3.3", "v26.7.0", "evicted", False),  # no source says which driver v26.3.3 brings
    ],
)
def test_a_release_with_another_driver(before: str, after: str, pods: str, certain: bool) -> None:
    base = edited(EKS, lambda data: data.update(gpuOperator={"version": before}))
    (effect,) = effects(base, section("gpuOperator", version=after))
    assert (effect.kind, effect.pods, effect.certain, effect.at_once) == ("restarted", pods, certain, 1)
    assert effect.nodes_max == 6


def test_other_taints_restart_the_driver_in_place() -> None:
    base = edited(EKS, lambda data: data.update(gpuOperator={}))
    found = effects(base, pool(0, taints=[{"key": "gpu", "effect": "NoSchedule"}]))
    (driver,) = [effect for effect in found if effect.kind == "restarted"]
    assert (driver.pods, driver.certain) == ("kept", True)
    old = edited(base, section("gpuOperator", version="v25.10.1", driver={"version": "580.105.08"}))
    found = effects(old, pool(0, taints=[{"key": "gpu", "effect": "NoSchedule"}]))
    (driver,) = [effect for effect in found if effect.kind == "restarted"]
    assert (driver.pods, driver.certain) == ("evicted", True)
    assert "upgrade-failed" in driver.what
    by_hand = edited(
        old, section("gpuOperator", values={"driver": {"upgradePolicy": {"autoUpgrade": False}}})
    )
    found = effects(by_hand, pool(0, taints=[{"key": "gpu", "effect": "NoSchedule"}]))
    (driver,) = [effect for effect in found if effect.kind == "restarted"]
    assert (driver.pods, "no node is cordoned" in driver.what) == ("kept", True)


def test_another_pool_leaves_the_driver_alone() -> None:
    """Adding a pool cordoned every GPU node while each pool had a toleration of its own."""
    base = edited(EKS, lambda data: data.update(gpuOperator={}))
    added = {"name": "more", "gpu": "t4", "nodes": {"instanceTypes": ["g4dn.xlarge"], "max": 1}}
    found = effects(base, lambda data: data["pools"].append(added))
    assert [effect.reason for effect in found if effect.kind == "restarted"] == [
        "the device plugin's configuration changes"
    ]


def test_a_new_version_of_the_cluster_is_for_others_to_bring() -> None:
    (effect,) = effects(EKS, section("cluster", kubernetesVersion="1.35"))
    assert effect.kind == "stay"
    assert "replaces the nodes of shared, parted" in effect.what


def test_fewer_replicas_and_mps() -> None:
    found = effects(EKS, pool(0, sharing={"mode": "time-slicing", "replicas": 2}))
    assert "from 32 to 16 slices" in found[-1].what
    assert "beyond the new number" in found[-1].what
    mps = edited(EKS, pool(0, sharing={"mode": "mps", "replicas": 4}))
    found = effects(mps, pool(0, sharing={"mode": "mps", "replicas": 2}))
    (resharing,) = [effect for effect in found if effect.pool]
    assert (resharing.pods, resharing.certain) == ("killed", False)


MPS = edited(EKS, pool(0, sharing={"mode": "mps", "replicas": 4}))
MPS_RISKS: dict[str, tuple[Edit, bool]] = {
    "another pool's slices": (pool(1, sharing={"mode": "time-slicing", "replicas": 2}), True),
    "another pool's layout": (pool(1, sharing={"mode": "mig", "layout": {"1g.10gb": 7}}), False),
    "another pool's taints": (pool(1, taints=[{"key": "gpu", "effect": "NoSchedule"}]), True),
    "the operator's version": (section("gpuOperator", version="v26.3.3"), True),
    "another pool's labels": (pool(1, labels={"a": "b"}), False),
}


@pytest.mark.parametrize("name", MPS_RISKS)
def test_a_restart_of_the_daemonsets_may_cost_what_computes_through_mps(name: str) -> None:
    edit, hit = MPS_RISKS[name]
    found = [effect for effect in effects(MPS, edit) if effect.pool == "shared" and effect.pods == "killed"]
    assert [(each.kind, each.certain, "may fail with a CUDA error" in each.what) for each in found] == (
        [("restarted", False, True)] if hit else []
    )
    everywhere = [effect for effect in effects(MPS, edit) if (effect.kind, effect.pool) == ("restarted", "")]
    in_words = [
        "stay (perhaps not in shared: MPS)" in effect.what
        or "GPUs (perhaps not in shared: MPS)" in effect.what
        for effect in everywhere
    ]
    assert any(in_words) == hit
    assert not any(": MPS)" in effect.what for effect in effects(EKS, edit))


def test_an_mps_pool_of_other_replicas_is_reported_once() -> None:
    found = effects(MPS, pool(0, sharing={"mode": "mps", "replicas": 2}))
    assert len([effect for effect in found if effect.pool == "shared"]) == 1


@pytest.mark.parametrize("driver", [True, False])
def test_other_taints_restart_the_daemonsets_with_and_without_a_driver(driver: bool) -> None:
    base = edited(EKS, section("gpuOperator", driver={"enabled": driver}))
    found = effects(base, pool(0, taints=[{"key": "other", "effect": "NoSchedule"}]))
    (restart,) = [effect for effect in found if effect.kind == "restarted"]
    assert restart.reason == "daemonsets.tolerations changes"
    assert (restart.pool, restart.pods) == ("", "kept")


def test_a_new_environment_and_one_that_goes() -> None:
    warm = edited(EKS, nodes(1, warm=1))
    assert [effect.kind for effect in node_effects(None, state(warm))] == ["started"]
    gone = node_effects(state(warm), None)
    assert [effect.kind for effect in gone] == ["deleted"] * 3
    assert all("gpupool destroy" in effect.what for effect in gone)


@pytest.mark.parametrize(
    ("engine", "on_removal", "kind", "text"),
    [
        ("argocd", "confirm", "stay", "argocd keeps NodePool"),
        ("argocd", "keep", "stay", "argocd keeps NodePool parted and its nodes"),
        ("argocd", "delete", "deleted", "all at once"),
        ("flux", "keep", "stay", "flux keeps NodePool parted and its nodes"),
        ("flux", "delete", "deleted", "all at once"),
    ],
)
def test_what_gitops_engines_do_not_delete(engine: str, on_removal: str, kind: str, text: str) -> None:
    delivery = {"engine": engine, "repo": "https://git.example.com/p.git", "path": "rendered/trial"}
    base = edited(EKS, lambda data: data.update(delivery={**delivery, "onRemoval": on_removal}))
    found = effects(base, lambda data: data["pools"].pop())
    (gone,) = [effect for effect in found if effect.node_pool == "parted"]
    assert gone.kind == kind
    assert text in gone.what
