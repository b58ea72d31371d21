"""Rules at their edges: the value just right, and the one that is not. Wordings are in golden files."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gpupool.environment.plan.checks import CHECKS
from gpupool.findings import SpecError
from tests.environment_files import Data, environment_data, plan_of

BASE: Data = environment_data(
    "local",
    pools=[
        {
            "name": "slices",
            "gpu": "t4",
            "sharing": {"mode": "time-slicing", "replicas": 4},
            "nodes": {"instanceTypes": ["g4dn.xlarge"], "max": 2, "warm": 1, "usdPerHour": {"onDemand": 1.0}},
        },
        {
            "name": "parts",
            "gpu": "a100-80gb",
            "sharing": {"mode": "mig", "layout": {"3g.40gb": 1, "2g.20gb": 2}},
            "nodes": {"instanceTypes": ["p4de.24xlarge"], "max": 1},
        },
    ],
    priorities=[{"name": "p", "value": 2, "level": "high"}, {"name": "q", "value": 1, "level": "low"}],
    tenants=[
        {"name": "one", "namespace": "one", "pools": {"slices": {"gpus": 1}}, "budget": {"usd": 1000}},
        {"name": "two", "namespace": "two", "pools": {"slices": {"gpus": 1}}},
    ],
)


PROJECT_ALERTS = "tenants[0].projects[0].budget.alertAt"
UUID = "11111111-1111-1111-1111-111111111111"


def found(*changes: tuple[tuple[str | int, ...], Any]) -> list[str]:
    """Paths of the findings of BASE with the values at some places set, or removed where they are None."""
    environment = copy.deepcopy(BASE)
    for place, value in changes:
        inner: Any = environment
        for part in place[:-1]:
            inner = inner[part]
        if value is None:
            del inner[place[-1]]
        else:
            inner[place[-1]] = value
    try:
        plan_of(environment)
    except SpecError as error:
        return [finding.path for finding in error.findings]
    return []


def pool(index: int, *path: str | int) -> tuple[str | int, ...]:
    return ("pools", index, *path)


def tenant(*path: str | int) -> tuple[str | int, ...]:
    return ("tenants", 0, *path)


GOOD: list[tuple[tuple[str | int, ...], Any]] = [
    (pool(0, "sharing", "replicas"), 2),
    (pool(0, "nodes", "warm"), 2),
    (pool(0, "nodes", "spotShare"), 0.5),
    (pool(0, "nodes", "spotShare"), 1),
    (pool(1, "nodes", "spotShare"), 1),
    (pool(1, "name"), "s" * 52),
    (pool(0, "labels"), {"team": "a", "example.com/x": ""}),
    (pool(0, "labels"), {"mykubernetes.io/x": "a", "gpupool.dev.example.com/x": "a"}),
    (pool(0, "taints"), [{"key": "nvidia.com/gpu"}]),
    (pool(0, "taints"), [{"key": "a"}, {"key": "a", "effect": "NoExecute"}]),
    (pool(0, "maintenance"), {"maxUnavailable": 2, "window": "Sat,Sun 23:00-01:00 UTC"}),
    (("tenants", 1, "pools"), {"parts": {"gpus": 8}}),
    (tenant("pools"), {"slices": {"slices": 4}}),
    (tenant("pools"), {"parts": {"profiles": {"3g.40gb": 8, "2g.20gb": 16}}}),
    (tenant("pools"), {"parts": {"gpus": 8}}),
    # A warm node at 1 USD an hour, shared by two tenants with equal grants: 365 USD a month each.
    (tenant("budget"), {"usd": 365.0}),
    (tenant("budget"), {"usd": 84.0, "period": "week"}),
    (tenant("budget"), {"usd": 12.0, "period": "day"}),
    (("priorities", 0, "level"), "low"),
    (("cluster", "kubernetesVersion"), "1.30"),
    (("karpenter",), {"version": "1.7.0"}),
]
BAD: list[tuple[tuple[str | int, ...], Any, str]] = [
    (pool(0, "sharing", "replicas"), 1, "pools[0].sharing.replicas"),
    (pool(0, "sharing", "replicas"), -3, "pools[0].sharing.replicas"),
    (pool(0, "sharing"), {"mode": "mps", "replicas": 49}, "pools[0].sharing.replicas"),
    (pool(0, "sharing"), {"mode": "mig", "layout": {"1g.10gb": 1}}, "pools[0].sharing.mode"),
    (pool(1, "sharing", "layout"), {"3g.40gb": 2, "1g.10gb": 1}, "pools[1].sharing.layout"),
    (pool(0, "nodes", "warm"), 3, "pools[0].nodes.warm"),
    (pool(1, "nodes", "spotShare"), 0.5, "pools[1].nodes.spotShare"),
    (pool(0, "nodes", "instanceTypes"), ["g5.xlarge"], "pools[0].nodes.instanceTypes[0]"),
    (pool(0, "nodes", "instanceTypes"), ["g4dn.xlarge"] * 2, "pools[0].nodes.instanceTypes[1]"),
    (pool(0, "nodes", "max"), None, "pools[0].nodes.max"),
    (pool(0, "nodes", "gpus"), 2, "pools[0].nodes.gpus"),
    (pool(1, "name"), "s" * 53, "pools[1].name"),
    (pool(1, "name"), "slices", "pools[1].name"),
    (pool(0, "labels"), {"gpupool.dev/x": "a"}, 'pools[0].labels["gpupool.dev/x"]'),
    (pool(0, "labels"), {"sub.kubernetes.io/x": "a"}, 'pools[0].labels["sub.kubernetes.io/x"]'),
    (pool(0, "labels"), {"nvidia.com/gpu": "a"}, 'pools[0].labels["nvidia.com/gpu"]'),
    (pool(0, "labels"), {"a..b/x": "a"}, 'pools[0].labels["a..b/x"]'),
    (pool(0, "taints"), [{"key": "karpenter.sh/x"}], "pools[0].taints[0].key"),
    (pool(0, "taints"), [{"key": "a", "value": "b"}, {"key": "a", "value": "c"}], "pools[0].taints[1]"),
    (pool(0, "fallbackTo"), ["parts"], "pools[0].fallbackTo[0]"),
    (pool(0, "fallbackTo"), ["slices"], "pools[0].fallbackTo[0]"),
    (pool(0, "fallbackTo"), ["nowhere"], "pools[0].fallbackTo[0]"),
    (pool(1, "fallbackTo"), ["slices"], "pools[1].fallbackTo[0]"),
    (pool(0, "maintenance"), {"maxUnavailable": 3}, "pools[0].maintenance.maxUnavailable"),
    (tenant("pools"), {"slices": {"gpus": 3}}, "tenants[0].pools.slices.gpus"),
    (tenant("pools"), {"slices": {"slices": 9}}, "tenants[0].pools.slices.slices"),
    (tenant("pools"), {"slices": {"gpus": 1, "slices": 1}}, "tenants[0].pools.slices"),
    (tenant("pools"), {"slices": {}}, "tenants[0].pools.slices"),
    (tenant("pools"), {"parts": {"profiles": {"3g.40gb": 9}}}, "tenants[0].pools.parts.profiles"),
    (tenant("pools"), {"parts": {"profiles": {"1g.10gb": 1}}}, "tenants[0].pools.parts.profiles"),
    (tenant("pools"), {"parts": {"slices": 1}}, "tenants[0].pools.parts.slices"),
    (tenant("pools"), {"slices": {"gpus": 2}}, "pools[0]"),
    (tenant("budget"), {"usd": 364.0}, "tenants[0].budget.usd"),
    (tenant("budget"), {"usd": 83.0, "period": "week"}, "tenants[0].budget.usd"),
    (tenant("budget"), {"usd": 11.0, "period": "day"}, "tenants[0].budget.usd"),
    (tenant("budget"), {"usd": 1000.0, "alertAt": [1.0, 0.5]}, "tenants[0].budget.alertAt"),
    (tenant("maxPriority"), "r", "tenants[0].maxPriority"),
    (tenant("namespace"), "kube-public", "tenants[0].namespace"),
    (tenant("namespace"), "gpu-operator", "tenants[0].namespace"),
    (("tenants", 1, "namespace"), "one", "tenants[1].namespace"),
    (("tenants", 1, "name"), "one", "tenants[1].name"),
    (tenant("projects"), ["a", "a"], "tenants[0].projects[1]"),
    (tenant("projects"), ["a", {"name": "a"}], "tenants[0].projects[1].name"),
    (tenant("projects"), [{"name": "a", "budget": {"usd": 1, "alertAt": [2, 1]}}], PROJECT_ALERTS),
    (("queue",), {"aging": "0s"}, "queue.aging"),
    (("queue",), {"idle": {"prometheus": "http://prometheus", "for": "0m"}}, "queue.idle.for"),
    (("queue",), {"logs": {"keepFor": "0d"}}, "queue.logs.keepFor"),
    (("queue",), {"defaultTimeout": "337h"}, "queue.defaultTimeout"),
    (("priorities", 0, "value"), 1, "priorities[1].value"),
    (("priorities", 1, "level"), "critical", "priorities[1].level"),
    (("priorities", 0, "name"), "system-x", "priorities[0].name"),
    (("cluster", "kubernetesVersion"), "1.29", "cluster.kubernetesVersion"),
    (("karpenter",), {"version": "1.6.9"}, "karpenter.version"),
    (("gpuOperator",), {"driver": {"version": "300.1"}}, "gpuOperator.driver.version"),
    (
        ("gpuOperator",),
        {"values": {"migManager": {"enabled": False}}},
        "gpuOperator.values.migManager.enabled",
    ),
]


def test_the_base_is_sound() -> None:
    assert found() == []


@pytest.mark.parametrize(("place", "value"), GOOD, ids=lambda value: str(value)[:60])
def test_just_right(place: tuple[str | int, ...], value: object) -> None:
    assert found((place, value)) == []


@pytest.mark.parametrize(("place", "value", "path"), BAD, ids=lambda value: str(value)[:60])
def test_just_wrong(place: tuple[str | int, ...], value: object, path: str) -> None:
    assert set(found((place, value))) == {path}


def test_every_rule_is_registered_once() -> None:
    assert len(set(CHECKS)) == len(CHECKS)


def test_an_id_is_one_tenants_and_one_projects() -> None:
    """A tenant and a project may share one; two of a kind may not."""
    project = {"name": "a", "id": UUID}
    assert found((tenant("id"), UUID), (tenant("projects"), [project])) == []
    assert found((tenant("id"), UUID), (("tenants", 1, "id"), UUID)) == ["tenants[1].id"]
    other = (("tenants", 1, "projects"), ["b", {**project, "name": "c"}])
    assert found((tenant("projects"), [project]), other) == ["tenants[1].projects[1].id"]


def test_the_default_timeout_is_judged_where_it_is_written() -> None:
    deadline = (("policies",), {"limits": {"jobDeadline": "3h"}})
    assert found(deadline) == []
    assert found(deadline, (("queue",), {"defaultTimeout": "3h"})) == []
    assert found(deadline, (("queue",), {"defaultTimeout": "4h"})) == ["queue.defaultTimeout"]
