"""Environments that get into each other's way: one cluster or one machine claimed twice."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from gpupool.policy.rules import ENVIRONMENT_RULES, ObjectSet, check_bundles
from tests.policy.rules.drafts import SHIPPED, shipped


def _bundle(name: str, environment: str, /, **cluster: Any) -> ObjectSet:
    draft = shipped(name)
    assert draft.plan is not None
    moved = draft.plan.cluster.model_copy(update=cluster)
    draft.plan = dataclasses.replace(draft.plan, environment=environment, cluster=moved)
    draft.environment = environment
    return draft.bundle()


def test_shipped_environments_leave_each_other_alone() -> None:
    assert check_bundles([shipped(name).bundle() for name in SHIPPED]) == []


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        ({"name": "ml-prod"}, "cluster 'ml-prod'"),
        ({"name": "other", "kube_context": "ml-prod"}, "context 'ml-prod'"),
    ],
)
def test_two_environments_on_one_cluster(cluster: dict[str, Any], said: str) -> None:
    prod = shipped("prod").bundle()
    assert prod.plan is not None
    rival = _bundle("staging", "rival", **({"region": prod.plan.cluster.region} | cluster))
    (finding,) = check_bundles([prod, rival])
    assert (finding.rule, finding.level) == ("one-environment-per-object", "deny")
    assert finding.message.startswith(f"prod and rival are both for {said}, and both own HelmRelease")
    assert "Namespace gpupool-system" in finding.values["objects"]
    assert finding.values["environments"] == ["prod", "rival"]


def test_same_name_in_two_regions_is_two_clusters() -> None:
    assert (
        check_bundles(
            [shipped("prod").bundle(), _bundle("prod", "west", region="us-west-2", kube_context="w")]
        )
        == []
    )


def test_folders_say_nothing_of_their_cluster() -> None:
    folder = shipped("prod")
    folder.plan = None
    assert check_bundles([shipped("prod").bundle(), folder.bundle()]) == []


def test_one_machine_in_two_environments() -> None:
    (finding,) = check_bundles([shipped("homelab").bundle(), _bundle("homelab", "attic", name="attic")])
    assert (finding.rule, finding.level) == ("one-environment-per-node", "warn")
    assert "'k3s-gpu-0' is in pool 'desk' of homelab and in pool 'desk' of attic" in finding.message


@pytest.mark.parametrize(("name", "rules"), [("homelab", {"one-environment-per-node"}), ("attic", set())])
def test_selectors_meet_only_within_a_cluster(name: str, rules: set[str]) -> None:
    def chosen(environment: str, cluster: str, **selector: str) -> ObjectSet:
        bundle = _bundle("homelab", environment, name=cluster)
        assert bundle.plan is not None
        pool = dataclasses.replace(bundle.plan.pools[0], node_names=(), node_selector=selector)
        return ObjectSet(environment, (), plan=dataclasses.replace(bundle.plan, pools=(pool,)))

    pair = [chosen("one", "homelab", gpu="yes"), chosen("two", name, gpu="yes", disk="fast")]
    assert {finding.rule for finding in check_bundles(pair)} == rules


def test_every_rule_is_tested() -> None:
    assert {rule.name for rule in ENVIRONMENT_RULES} == {
        "one-environment-per-object",
        "one-environment-per-node",
    }
