"""`gpupool assert` from the inside: the CronJob's account sees what an administrator does and can't write."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from gpupool.generators import generate
from gpupool.live.cluster import kubeconfig
from gpupool.live.cluster.kube_api import ApiError, KubeApi
from gpupool.live.drift.check import assert_environment
from gpupool.local.control_plane import ControlPlane
from tests.cluster.drift.world import World

ASSERTION = {"assertion": {"image": "registry.example/gpupool:0.1.0"}}
ACCOUNT = ("gpupool-system", "gpupool-assert")


@pytest.fixture
def inside(
    world: World, control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> KubeApi:
    """A client as a pod with the CronJob's account has it: a token and a certificate, no kubeconfig."""
    world.commands.change(lambda data: data.update(monitoring=ASSERTION))
    plan = world.commands.plan
    for manifest in generate(plan):
        if manifest.name.startswith("gpupool-assert"):
            world.api.apply(dict(manifest.body), "gpupool")
    namespace, name = ACCOUNT
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    answer = world.api.request("POST", path, None, request)[1]
    (tmp_path / "token").write_text(answer["status"]["token"])
    (tmp_path / "ca.crt").write_bytes(control_plane.layout.certificate.read_bytes())
    address = urlsplit(world.api.server)
    monkeypatch.setattr(kubeconfig, "_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", str(address.hostname))
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(address.port))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    return KubeApi.connect(context="what it is called outside")


def reported(outcome: Any) -> list[tuple[str, ...]]:
    return [(d.layer, d.code, d.object, d.path, d.what) for d in outcome.drifts]


def test_the_account_sees_what_an_administrator_sees_and_writes_nothing(
    inside: KubeApi, world: World
) -> None:
    assert inside.context == "in-cluster"
    plan = world.commands.plan

    def alike() -> bool:
        """Whether both see the two edits and nothing else: what Karpenter was at is over."""
        ours, theirs = assert_environment(plan, inside), assert_environment(plan, world.api)
        assert reported(ours) == reported(theirs)
        assert {drift.code for drift in ours.drifts} == {"label", "changed"}, reported(ours)
        return True

    world.clean()
    try:
        world.label(world.node("notebooks"), "workload-type", None)
        world.edit("karpenter.sh/v1", "NodePool", "batch", {"spec": {"limits": {"nodes": "9"}}})
        world.kube.wait("both accounts see the same", alike)
        for attempt in (
            lambda: inside.patch(
                "karpenter.sh/v1", "NodePool", "batch", {"spec": {"limits": {"nodes": "2"}}}
            ),
            lambda: inside.delete("v1", "ConfigMap", "gpupool-pools", "gpupool-system"),
            lambda: inside.list("v1", "Secret"),
            lambda: inside.list("v1", "ConfigMap", "default"),
        ):
            with pytest.raises(ApiError) as refused:
                attempt()
            assert refused.value.status == 403
    finally:
        world.edit("karpenter.sh/v1", "NodePool", "batch", {"spec": {"limits": {"nodes": "2"}}})
        world.label(world.node("notebooks"), "workload-type", "notebooks")
        _remove(world)


def _remove(world: World) -> None:
    for manifest in generate(world.commands.plan):
        if manifest.name.startswith("gpupool-assert"):
            world.api.delete(manifest.api_version, manifest.kind, manifest.name, manifest.namespace)


def test_what_may_not_be_listed_is_named(inside: KubeApi, world: World) -> None:
    world.api.delete("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "gpupool-assert")
    try:
        with pytest.raises(ApiError, match=r"not allowed to list \w+ objects"):
            assert_environment(world.commands.plan, inside)
    finally:
        _remove(world)
