"""Names, types and the order of resources."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.environment.plan.resolve import read_plan
from gpupool.generators import generate
from gpupool.generators.kinds import KINDS, RELEASE, rank_of
from gpupool.generators.manifest import HelmRelease, Manifest
from gpupool.infra.apply import Dependencies, goes_with
from gpupool.live.objects.resource_values import logical_name, properties, release_properties, type_token


def manifest(
    kind: str, name: str, namespace: str | None = None, version: str = "v1", **more: Any
) -> Manifest:
    metadata: dict[str, Any] = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if "pool" in more:
        metadata["labels"] = {"gpupool.dev/pool": more.pop("pool")}
    return Manifest({"apiVersion": version, "kind": kind, "metadata": metadata}, **more)


def test_names_are_readable_and_keep_when_content_changes() -> None:
    assert logical_name(manifest("NodePool", "a100")) == "NodePool/a100"
    assert logical_name(manifest("ResourceQuota", "gpupool", "team-x")) == "ResourceQuota/team-x/gpupool"
    first = manifest("ConfigMap", "gpupool-mig-0123456789", "gpu-operator")
    second = manifest("ConfigMap", "gpupool-mig-abcdef0123", "gpu-operator")
    assert logical_name(first) == logical_name(second) == "ConfigMap/gpu-operator/gpupool-mig"
    assert logical_name(manifest("Namespace", "team-0123456789")) == "Namespace/team-0123456789"


def test_types_are_those_of_pulumi_kubernetes() -> None:
    assert type_token(manifest("Namespace", "x")) == "kubernetes:core/v1:Namespace"
    assert (
        type_token(manifest("NodePool", "x", version="karpenter.sh/v1"))
        == "kubernetes:karpenter.sh/v1:NodePool"
    )
    assert type_token(manifest("Node", "x", patch=True)) == "kubernetes:core/v1:NodePatch"


def test_the_field_manager_is_named_and_the_body_left_alone() -> None:
    given = manifest("Namespace", "x")
    assert properties(given)["metadata"]["annotations"]["pulumi.com/patchFieldManager"] == "gpupool"
    assert "annotations" not in given.body["metadata"]


def test_only_what_has_dependents_is_deleted_in_the_foreground() -> None:
    def propagation(kind: str) -> str | None:
        annotations = properties(manifest(kind, "x"))["metadata"]["annotations"]
        return annotations.get("pulumi.com/deletionPropagationPolicy")

    assert {kind: propagation(kind) for kind in ("NodePool", "Deployment", "NodeOverlay", "Namespace")} == {
        "NodePool": None,
        "Deployment": None,
        "NodeOverlay": "background",
        "Namespace": "background",
    }


def test_charts_from_both_kinds_of_repository() -> None:
    release = HelmRelease(
        "karpenter", "kube-system", "karpenter", "oci://public.example/k", "1.14.1", {"a": 1}
    )
    made = release_properties(release)
    assert made["chart"] == "oci://public.example/k/karpenter"
    assert "repositoryOpts" not in made
    made = release_properties(HelmRelease("g", "n", "gpu-operator", "https://charts.example", "v1", {}))
    assert made["repositoryOpts"] == {"repo": "https://charts.example"}


def test_a_pool_waits_for_its_own_overlays_only() -> None:
    overlays = [manifest("NodeOverlay", "a", pool="a"), manifest("NodeOverlay", "b", pool="b")]
    shared = manifest("KWOKNodeClass", "default")
    others = [*overlays, shared, manifest("Namespace", "x")]
    found = Dependencies(others).of(manifest("NodePool", "a-spot", pool="a"))
    assert sorted(other.name for other in found) == ["a", "default"]


def test_everything_in_a_namespace_waits_for_it() -> None:
    spaces = [manifest("Namespace", "x"), manifest("Namespace", "y")]
    assert Dependencies(spaces).of(manifest("LimitRange", "gpupool", "x")) == [spaces[0]]


def test_what_is_in_a_namespace_goes_with_it_unless_it_runs_pods() -> None:
    space, patched = manifest("Namespace", "x"), manifest("Namespace", "x", patch=True)
    assert goes_with(manifest("LimitRange", "gpupool", "x"), [manifest("Role", "r", "x"), space]) == space
    assert goes_with(manifest("Deployment", "warm", "x"), [space]) is None
    assert goes_with(manifest("ConfigMap", "theirs", "x", patch=True), [space]) is None
    assert goes_with(manifest("LimitRange", "gpupool", "x"), [patched]) is None


@pytest.mark.parametrize("environment", ["local", "homelab", "prod"])
def test_the_index_lists_everything(environment: str) -> None:
    everything = list(generate(read_plan(environment)))
    dependencies = Dependencies(everything)
    waiting = 0
    for manifest in everything:
        found = {other.key for other in dependencies.of(manifest)}
        alone = {other.key for other in everything if Dependencies([other]).of(manifest)}
        assert found == alone, manifest
        waiting += len(found)
    assert waiting


def test_nobody_waits_for_what_comes_later() -> None:
    """Otherwise registration would look for a resource that is not registered yet, or go in a circle."""
    for kind in KINDS:
        for other in kind.needs:
            if other != RELEASE:
                assert rank_of(other) < rank_of(kind.name), f"{kind} waits for {other}"


def test_names_are_unique_in_every_shipped_environment() -> None:
    for environment in ("local", "homelab", "dev", "staging", "prod"):
        names = [logical_name(part) for part in generate(read_plan(environment))]
        assert len(names) == len(set(names)), environment
