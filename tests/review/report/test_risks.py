"""What is called a risk, and how grave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpupool.environment.plan.policy_files import SHIPPED
from tests.review.report.plans import EKS, Data, Edit, change, edited

_POLICIES = len(list(SHIPPED.glob("*.yaml")))


def section(name: str, **changes: Any) -> Edit:
    return lambda data: data.setdefault(name, {}).update(changes)


def pool(**changes: Any) -> Edit:
    return lambda data: data["pools"][0].update(changes)


def nodes(**changes: Any) -> Edit:
    return lambda data: data["pools"][0]["nodes"].update(changes)


def tenant(**changes: Any) -> Edit:
    return lambda data: data["tenants"][0].update(changes)


WAIVER = {"policy": "pin-images", "owner": "o", "reason": "r", "until": "2026-12-31"}
RISKS: dict[str, tuple[Edit, tuple[str, str, str]]] = {
    "drain": (pool(labels={"a": "b"}), ("danger", "drain", "pool shared: up to 2 nodes are replaced")),
    "image": (
        section("karpenter", amiAlias="al2023@v2"),
        ("caution", "drain", "pool shared: up to 2 nodes may be replaced"),
    ),
    "expiry": (nodes(expireAfter="720h"), ("caution", "expire", "720h after they start")),
    "dearer": (nodes(max=5), ("caution", "cost", "the monthly cost is at most ")),
    "warm": (
        lambda d: (d["pools"][0]["nodes"].update(warm=1), d["tenants"][0].pop("budget")),
        ("caution", "cost", "the monthly cost is at least "),
    ),
    "no budget": (
        tenant(budget=None),
        ("caution", "budget", "$1,000 a month (onExhausted: wait), is removed"),
    ),
    "budget": (tenant(budget={"usd": 2000}), ("caution", "budget", "from $1,000 to $2,000 a month")),
    "quota": (tenant(pools={"shared": {"gpus": 4}}), ("caution", "quota", "gpu from 32 to 16")),
    "no tenant": (lambda d: d.update(tenants=[]), ("danger", "tenant", "its namespace team-a is deleted")),
    "namespace": (tenant(namespace="b"), ("danger", "tenant", "from namespace team-a to b")),
    "access": (
        tenant(access={"oidcGroups": ["everyone"]}),
        ("caution", "access", "everyone may reach or act for a"),
    ),
    "spot": (nodes(spotShare=0.75), ("caution", "spot", "spotShare 0.5 becomes spotShare 0.75")),
    "window": (pool(maintenance={}), ("caution", "window", "Sat 02:00-06:00 UTC is removed")),
    "several at once": (
        pool(maintenance={"maxUnavailable": 2, "window": "Sat 02:00-06:00 UTC"}),
        ("caution", "window", "up to 2 nodes instead of 1"),
    ),
    "no taint": (pool(taints=[]), ("caution", "taint", "pool shared no longer has a taint")),
    "cluster": (section("cluster", kubeContext="other"), ("danger", "cluster", "from the default to other")),
    "rename": (
        lambda d: (d["pools"][0].update(name="new"), d["tenants"][0].update(pools={"new": {"gpus": 8}})),
        ("danger", "rename", "pool shared becomes new"),
    ),
    "policy off": (
        section("policies", default="warn"),
        ("caution", "policy", f"weaker: all {_POLICIES} policies go from deny to warn"),
    ),
    "most policies off": (
        section("policies", default="warn", overrides={"pin-images": "deny"}),
        ("caution", "policy", f"{_POLICIES - 1} policies go from deny to warn: "),
    ),
    "one policy off": (
        section("policies", overrides={"pin-images": "audit"}),
        ("caution", "policy", "policy pin-images goes from deny to audit"),
    ),
    "waiver": (section("policies", waivers=[WAIVER]), ("caution", "waiver", "until 2026-12-31 (o: r)")),
    "longer jobs": (
        section("policies", limits={"jobRetries": 9}),
        ("caution", "policy", "policies.limits.jobRetries goes from 3 to 9"),
    ),
    "claims": (
        section("policies", limits={"deviceClasses": ["rdma.example.com"]}),
        ("caution", "policy", "tenants may claim devices of class rdma.example.com, which no quota counts"),
    ),
    "a new denial": (
        section("cost", monthlyUsdMax=1),
        ("danger", "policy", "2 new denials (budgets-within-ceiling, cost-within-ceiling)"),
    ),
}


OPEN = {"ingressFrom": ["web", "jobs"], "serviceAccounts": ["ci/runner"], "oidcGroups": ["ml"]}
CLASSES = [
    {"name": "train", "value": 500, "level": "high"},
    {"name": "batch", "value": 300, "level": "medium"},
]
TWO_TENANTS = [
    {"name": name, "namespace": f"team-{name}", "pools": {"shared": {"gpus": 16}}} for name in ("a", "b")
]
LATER_RISKS: dict[str, tuple[Edit, Edit, tuple[str, str] | None]] = {
    "reached less": (
        tenant(access=OPEN),
        tenant(access={**OPEN, "ingressFrom": ["jobs"]}),
        ("access", "pods in web can no longer connect to a"),
    ),
    "acted for less": (
        tenant(access=OPEN),
        tenant(access={**OPEN, "serviceAccounts": []}),
        ("access", "ci/runner can no longer act for a"),
    ),
    "people cut off": (
        tenant(access=OPEN),
        tenant(access={**OPEN, "oidcGroups": []}),
        ("access", "members of ml lose access to a"),
    ),
    "a higher priority": (
        lambda d: (d.update(priorities=CLASSES), d["tenants"][0].update(maxPriority="batch")),
        tenant(maxPriority="train"),
        ("priority", "a may use priorities up to train instead of batch: its pods go before"),
    ),
    "a lower priority": (
        lambda d: (d.update(priorities=CLASSES), d["tenants"][0].update(maxPriority="train")),
        tenant(maxPriority="batch"),
        ("priority", "a may use priorities up to batch instead of train: new pods above"),
    ),
    "more granted than there is": (
        lambda d: (d.update(tenants=TWO_TENANTS), pool(overcommit=True)(d)),
        nodes(max=3),
        ("capacity", "pool shared: tenants are granted 128 of 96 gpu (128 of 128 before)"),
    ),
    "granted all there is": (
        lambda d: d.update(tenants=TWO_TENANTS),
        pool(description="x"),
        None,
    ),
    "from MPS": (
        pool(sharing={"mode": "mps", "replicas": 4}),
        pool(sharing={"mode": "time-slicing", "replicas": 4}),
        ("isolation", "pool shared goes from mps to time-slicing: a job may use the memory"),
    ),
    "to MPS": (
        pool(sharing={"mode": "time-slicing", "replicas": 4}),
        pool(sharing={"mode": "mps", "replicas": 4}),
        None,
    ),
    "an older operator": (
        section("gpuOperator", version="v26.7.0"),
        section("gpuOperator", version="v26.3.3"),
        ("downgrade", "gpuOperator.version is downgraded from v26.7.0 to v26.3.3"),
    ),
    "a newer operator": (
        section("gpuOperator", version="v26.3.3"),
        section("gpuOperator", version="v26.7.0"),
        None,
    ),
    "an older Karpenter": (
        section("karpenter", version="1.14.1"),
        section("karpenter", version="1.9.2"),
        ("downgrade", "karpenter.version is downgraded from 1.14.1 to 1.9.2"),
    ),
}
"""Base, change, and kind and words of the caution; None: none of these kinds."""


@pytest.mark.parametrize("name", LATER_RISKS)
def test_what_hurts_later(name: str, tmp_path: Path) -> None:
    base, edit, expected = LATER_RISKS[name]
    environment = change(tmp_path, edited(EKS, base), edit)
    assert not environment.invalid.before
    assert not environment.invalid.after
    kinds = {each[2][0] for each in LATER_RISKS.values() if each[2]}
    found = [risk for risk in environment.risks if risk.code in kinds]
    assert [risk.code for risk in found] == ([expected[0]] if expected else [])
    assert not expected or (expected[1] in found[0].what and found[0].category == "caution")


@pytest.mark.parametrize("name", RISKS)
def test_risk(name: str, tmp_path: Path) -> None:
    edit, (severity, kind, text) = RISKS[name]
    found = change(tmp_path, EKS, edit).risks
    assert any((risk.category, risk.code) == (severity, kind) and text in risk.what for risk in found), found
    severities = [risk.category for risk in found]
    assert severities == sorted(severities, reverse=True), "dangers first"


def test_a_changed_default_is_one_risk_after_the_others(tmp_path: Path) -> None:
    def edit(data: Data) -> None:
        data["policies"] = {"default": "warn"}
        data["pools"][0]["nodes"]["expireAfter"] = "720h"

    cautions = [risk for risk in change(tmp_path, EKS, edit).risks if risk.category == "caution"]
    assert [risk.code for risk in cautions] == ["expire", "policy"]


def test_of_another_cluster_nothing_is_said_that_only_may_be(tmp_path: Path) -> None:
    def edit(data: Data) -> None:
        data["cluster"].update(name="other", kubeContext="other")

    environment = change(tmp_path, EKS, edit)
    assert any(not effect.certain for effect in environment.effects)
    (risk,) = environment.risks
    assert (risk.category, risk.code) == ("danger", "cluster")
    assert "from the default to other, cluster.name changes from ml to other: nodes" in risk.what


HARMLESS: dict[str, Edit] = {
    "description": pool(description="words"),
    "more replicas": pool(sharing={"mode": "time-slicing", "replicas": 5}),
    "more quota": tenant(pools={"shared": {"gpus": 9}}),
    "less budget": tenant(budget={"usd": 900}),
    "a new policy": section("policies", limits={"registries": ["registry.k8s.io"]}),
    "cheaper": nodes(max=3, spotShare=0.5),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_no_risk(name: str, tmp_path: Path) -> None:
    assert change(tmp_path, EKS, HARMLESS[name]).risks == ()


def test_the_threshold_is_the_users(tmp_path: Path) -> None:
    def kinds(**options: Any) -> list[str]:
        return [risk.code for risk in change(tmp_path, EKS, nodes(max=5), **options).risks]

    assert "cost" in kinds(cost_threshold=5.0)
    assert "cost" not in kinds(cost_threshold=500.0)


def test_a_smaller_scope_is_a_risk(tmp_path: Path) -> None:
    wide: Data = edited(EKS, section("policies", scope="cluster"))
    (risk,) = change(tmp_path, wide, lambda data: data.pop("policies")).risks
    assert "policies.scope goes from cluster to gpu" in risk.what
    assert change(tmp_path, EKS, section("policies", scope="cluster")).risks == ()


def test_stricter_is_no_risk(tmp_path: Path) -> None:
    lax: Data = edited(EKS, section("policies", default="warn", waivers=[WAIVER]))
    assert change(tmp_path, lax, lambda data: data.pop("policies")).risks == ()


def test_an_environment_that_goes(tmp_path: Path) -> None:
    from gpupool.review.report.build import build
    from tests.review.report.plans import TODAY, snapshot

    trial = {**EKS, "metadata": {"name": "trial"}}
    made = build(snapshot(tmp_path, "base", trial=trial), snapshot(tmp_path, "head"), [], TODAY, 20)
    (environment,) = made.environments
    assert environment.change == "removed"
    assert environment.risks[0].code == "delete"
    assert made.notes == ("head has no environments folder with environments.",)
