"""What quotas of a namespace allow together, and what they don't."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpupool.adopt.convert.convert import Conversion, convert
from gpupool.adopt.convert.documents import parse_documents
from gpupool.adopt.convert.draft import Choices
from gpupool.environment.plan.policy_files import SHIPPED

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "a", "labels": {"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.count": "8"}},
}
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}


def quota(name: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "team"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": spec}


def gpus(count: int, resource: str = "requests.nvidia.com/gpu") -> dict[str, str]:
    return {resource: str(count)}


def converted(*quotas: dict[str, Any]) -> Conversion:
    text = yaml.safe_dump_all([NODE, NAMESPACE, *quotas])
    documents, findings = parse_documents("all.yaml", text.encode())
    assert not findings
    return convert(documents, Choices())


def granted(*quotas: dict[str, Any]) -> int | None:
    (tenant, *_) = yaml.safe_load(converted(*quotas).text).get("tenants") or [{}]
    count: int | None = tenant.get("pools", {}).get("t4", {}).get("gpus")
    return count


@given(st.lists(st.integers(1, 8), min_size=1, max_size=4))
def test_each_quota_of_a_namespace_is_enforced(counts: list[int]) -> None:
    assert granted(*(quota(f"q{n}", hard=gpus(count)) for n, count in enumerate(counts))) == min(counts)


@pytest.mark.parametrize(
    "scope",
    [
        {"scopes": ["BestEffort"]},
        {"scopes": ["NotTerminating"]},
        {
            "scopeSelector": {
                "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["x"]}]
            }
        },
    ],
)
def test_quotas_of_some_pods_are_not_the_tenants(scope: dict[str, Any]) -> None:
    assert granted(quota("some", hard=gpus(1), **scope), quota("all", hard=gpus(3))) == 3
    alone = converted(quota("some", hard=gpus(1), **scope))
    assert "tenants" not in yaml.safe_load(alone.text)
    assert any("counts only some pods of the namespace" in str(entry) for entry in alone.leftovers)


def test_renamed_slices_are_slices_of_renamed_pools_alone() -> None:
    renamed = quota("q", hard=gpus(3, "requests.nvidia.com/gpu.shared") | gpus(2))
    assert granted(renamed) == 2
    assert any("nvidia.com/gpu.shared is 3 more" in str(entry) for entry in converted(renamed).leftovers)
    labels = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing"}
    described = {**NODE["metadata"], "labels": {**NODE["metadata"]["labels"], **labels}}
    capacity = {"status": {"capacity": {"nvidia.com/gpu.shared": "32"}}}
    text = yaml.safe_dump_all([{**NODE, "metadata": described, **capacity}, NAMESPACE, renamed])
    documents, _ = parse_documents("all.yaml", text.encode())
    environment = yaml.safe_load(convert(documents, Choices()).text)
    (pool,) = environment["pools"]
    assert pool["sharing"] == {"mode": "time-slicing", "replicas": 4, "renameByDefault": True}
    assert environment["tenants"][0]["pools"] == {pool["name"]: {"slices": 3}}


@pytest.mark.parametrize("key", ["limits.nvidia.com/gpu", "nvidia.com/gpu", "limits.nvidia.com/mig-1g.10gb"])
def test_what_is_never_enforced_is_said_as_the_policy_says_it(key: str) -> None:
    result = converted(quota("q", hard=gpus(2, key)))
    assert "tenants" not in yaml.safe_load(result.text)
    resource = key.removeprefix("limits.")
    (entry,) = [entry for entry in result.leftovers if entry.category == "wrong"]
    ours = f"{entry.what}; {entry.remediation}"
    assert ours == f"quota on {key} is never enforced; write requests.{resource}"
    policy = (SHIPPED / "quotas-count-gpus.yaml").read_text(encoding="utf-8")
    assert "' is never enforced; write requests.'" in policy


def test_slices_of_shared_mig_instances_are_no_instances() -> None:
    result = converted(quota("q", hard=gpus(2) | gpus(8, "requests.nvidia.com/mig-1g.10gb.shared")))
    assert yaml.safe_load(result.text)["tenants"][0]["pools"] == {"t4": {"gpus": 2}}
    assert [entry for entry in result.leftovers if "does not share" in entry.what]


def test_a_namespace_in_two_files_is_one_tenant() -> None:
    text = yaml.safe_dump_all([NODE, NAMESPACE, NAMESPACE, quota("q", hard=gpus(2))])
    documents, _ = parse_documents("all.yaml", text.encode())
    result = convert(documents, Choices())
    assert [tenant["namespace"] for tenant in yaml.safe_load(result.text)["tenants"]] == ["team"]
    assert [entry for entry in result.leftovers if "another document has the same" in entry.what]
