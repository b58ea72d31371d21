"""preview, up, refresh and destroy against a real engine and a real API server."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupool.findings import SpecError
from gpupool.infra.recovery import OtherClusterError
from gpupool.infra.stack import StackError
from gpupool.live.objects.orphans import ForeignError
from tests.cluster.pulumi.conftest import no_models

POOL = ("karpenter.sh/v1", "NodePool", "notebooks")


def ops(result: Any) -> dict[str, str]:
    return {entry.resource: entry.op for entry in result.objects}


def test_up_makes_everything_once_and_destroy_leaves_nothing(world: Any) -> None:
    before = world.everything()
    seen = world.preview()
    assert set(ops(seen).values()) == {"create"}
    assert world.everything() == before, "preview changed the cluster"

    first = world.up()
    assert ops(first) == ops(seen)
    assert world.kube.get(*POOL)["spec"]["limits"]["nodes"] == "2"
    assert first.as_dict()["outputs"]["pools"][0]["name"] == "notebooks"

    again = world.up()
    assert again.objects == []
    assert again.outcome.counts == {"same": len(first.objects)}

    gone = world.destroy()
    assert set(ops(gone).values()) == {"delete"}
    assert world.everything() == before


def test_a_change_touches_what_it_is_about(world: Any) -> None:
    world.up()
    maps = {item["metadata"]["name"] for item in world.kube.api.list("v1", "ConfigMap", "gpu-operator")}
    world.spec["pools"][0]["sharing"]["replicas"] = 3
    seen, done = world.preview(), world.up()
    assert ops(seen) == ops(done)
    assert ops(done) == {
        "ConfigMap/gpu-operator/gpupool-device-plugin": "replace",
        "ClusterPolicy/cluster-policy": "update",
        "NodeOverlay/notebooks": "update",
        "NodePool/notebooks": "update",
        "ResourceQuota/trial-vision/gpupool": "update",
        "ConfigMap/gpupool-system/gpupool-pools": "update",
    }
    overlay = next(entry for entry in done.objects if entry.kind == "NodeOverlay")
    assert [str(field) for field in overlay.fields] == ['spec.capacity["nvidia.com/gpu"]: 4 -> 3']
    now = {item["metadata"]["name"] for item in world.kube.api.list("v1", "ConfigMap", "gpu-operator")}
    replaced = {name for name in maps - now if name.startswith("gpupool-device-plugin-")}
    assert len(replaced) == 1, "the old ConfigMap must go once nothing reads it"
    policy = world.kube.get("nvidia.com/v1", "ClusterPolicy", "cluster-policy")
    assert policy["spec"]["devicePlugin"]["config"]["name"] in now


def test_refresh_shows_what_others_did_and_up_restores_it(world: Any) -> None:
    world.up()
    world.kube.api.patch(*POOL, {"spec": {"limits": {"nodes": "9"}}})
    world.kube.api.delete("v1", "LimitRange", "gpupool", "trial-vision")
    drift = world.refresh()
    assert ops(drift) == {"NodePool/notebooks": "update", "LimitRange/trial-vision/gpupool": "delete"}
    pool = next(entry for entry in drift.objects if entry.kind == "NodePool")
    assert [str(field) for field in pool.fields] == ["spec.limits.nodes: 2 -> 9"]

    restored = world.up()
    assert ops(restored) == {"NodePool/notebooks": "update", "LimitRange/trial-vision/gpupool": "create"}
    assert world.kube.get(*POOL)["spec"]["limits"]["nodes"] == "2"
    assert world.refresh().objects == []


def test_what_others_add_is_left_alone(world: Any) -> None:
    world.up()
    world.kube.api.patch(*POOL, {"metadata": {"labels": {"team": "theirs"}}})
    assert world.refresh().objects == []
    world.spec["pools"][0]["nodes"]["max"] = 3
    world.up()
    assert world.kube.get(*POOL)["metadata"]["labels"]["team"] == "theirs"


def test_an_object_of_somebody_else_is_not_taken(world: Any) -> None:
    theirs = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "trial-vision"}}
    world.kube.apply(theirs)
    with pytest.raises(ForeignError, match=r"Namespace.trial-vision.*already exists and was not created by"):
        world.up()
    assert "labels" not in world.kube.get("v1", "Namespace", "trial-vision")["metadata"] or (
        "gpupool.dev/environment"
        not in world.kube.get("v1", "Namespace", "trial-vision")["metadata"]["labels"]
    )
    world.kube.api.delete("v1", "Namespace", "trial-vision")
    world.kube.wait("it is gone", lambda: world.kube.api.get("v1", "Namespace", "trial-vision") is None)
    world.up()
    assert world.up().objects == []


def test_what_the_server_refuses_is_named(world: Any) -> None:
    with no_models(world):
        with pytest.raises(StackError) as seen:
            world.preview()
        with pytest.raises(StackError) as done:
            world.up()
    for raised in (seen, done):
        assert re.search("^NodePool/?.*models.*no models here", str(raised.value), re.M)
        assert len(str(raised.value).splitlines()) <= 2
        assert "Traceback" not in str(raised.value)


def test_a_wrong_file_sends_nothing(world: Any) -> None:
    before = world.everything()
    world.spec["pools"][0]["sharing"]["replicas"] = 1
    with pytest.raises(SpecError):
        world.up()
    assert world.everything() == before
    assert not world.state.exists()


def test_no_credential_reaches_the_state(world: Any, control_plane: Any) -> None:
    world.up()
    config = yaml.safe_load(Path(control_plane.kubeconfig).read_text())
    token = config["users"][0]["user"]["token"]
    files = [path for path in world.state.rglob("*") if path.is_file()]
    text = "\n".join(path.read_text(errors="replace") for path in files)
    assert "NodePool/notebooks" in text, "this is not the state"
    for secret in (token, base64.b64encode(token.encode()).decode(), "certificate-authority-data"):
        assert secret not in text
    state = next(path for path in files if path.name == "trial.json" and "stacks" in path.parts)
    rows = json.loads(state.read_text())["checkpoint"]["latest"]["resources"]
    provider = next(row for row in rows if row["type"] == "pulumi:providers:kubernetes")
    assert provider["inputs"]["kubeconfig"].endswith("/kubeconfig"), "a path, never the contents"


def test_nodes_of_a_pool_go_before_what_they_need(world: Any, make_pods: Any) -> None:
    """A pool with a running node: its deletion takes claim and node along, in that order."""
    world.up()
    selector = {"gpupool.dev/pool": "notebooks"}
    make_pods("work", 1, {"nvidia.com/gpu": 1}, selector=selector, tolerate=["gpupool.dev/pool"])
    world.kube.wait("the pod runs", lambda: len(world.kube.running()) == 1)
    assert len(world.kube.nodes("gpupool.dev/pool=notebooks")) == 1
    world.spec["pools"].pop(0)
    world.spec["tenants"][0]["pools"] = {"models": {"profiles": {"3g.40gb": 1}}}
    done = world.up()
    assert ops(done)["NodePool/notebooks"] == "delete"
    assert world.kube.api.get("karpenter.sh/v1", "NodePool", "notebooks") is None
    assert world.kube.api.list("karpenter.sh/v1", "NodeClaim") == []
    assert world.kube.nodes("gpupool.dev/pool=notebooks") == []


def test_two_overlays_in_conflict_fail_loudly(world: Any) -> None:
    """Karpenter says so in the status only, and then starts nodes on a wrong assumption."""
    world.kube.apply(
        {
            "apiVersion": "karpenter.sh/v1alpha1",
            "kind": "NodeOverlay",
            "metadata": {"name": "zzz-theirs"},
            "spec": {
                "weight": 100,
                "requirements": [
                    {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g4dn.xlarge"]}
                ],
                "capacity": {"nvidia.com/gpu": "7"},
            },
        }
    )
    reported: list[str] = []

    def refused() -> bool:
        try:
            world.up()
        except StackError as error:
            reported.append(str(error))
        return bool(reported)

    world.kube.wait("up says so", refused)
    assert "NodeOverlay notebooks: ValidationSucceeded is False" in reported[0]


def test_another_cluster_is_noticed(world: Any) -> None:
    world.up()
    names = ("gpu-operator", "gpupool-system", "trial-vision")
    for name in names:
        world.kube.api.delete("v1", "Namespace", name)
    world.kube.wait(
        "they are gone",
        lambda: all(world.kube.api.get("v1", "Namespace", name) is None for name in names),
    )
    for command in (world.preview, world.up, world.destroy):
        with pytest.raises(OtherClusterError, match="this is another cluster, or everything was deleted"):
            command()
    assert ops(world.refresh())["Namespace/trial-vision"] == "delete"
    world.up()
    assert world.up().objects == []
