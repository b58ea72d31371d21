"""Nodes that exist already: ours beside their own while we are there, and exactly their own afterwards."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from gpupool.environment.plan.resolve import read_plan
from gpupool.infra.pulumi_plugins import env as pulumi_env
from gpupool.infra.stack import StackError
from gpupool.live.repartition.run import Pace, repartition
from gpupool.programs import binaries
from tests.cluster.operator_policy import hand_made_policy
from tests.cluster.pulumi.conftest import OWN_LABELS, OWN_TAINTS


def taken_as_it_was(node: dict[str, Any]) -> tuple[Any, Any]:
    """Labels and taints, without what the node's own controllers write."""
    labels = {k: v for k, v in node["metadata"]["labels"].items() if "nvidia.com" not in k}
    taints = [t for t in node["spec"].get("taints", []) if not t["key"].startswith("node.kubernetes.io/")]
    return labels, sorted(taints, key=lambda taint: taint["key"])


def test_a_node_keeps_its_own_and_gets_it_back(homelab: Any) -> None:
    before = taken_as_it_was(homelab.kube.node("k3s-gpu-0"))
    everything = homelab.everything()
    homelab.up()
    labels, taints = taken_as_it_was(homelab.kube.node("k3s-gpu-0"))
    assert labels["gpupool.dev/pool"] == "homelab"
    assert labels["workload-type"] == "research"
    assert labels.items() >= OWN_LABELS.items()
    keys = [taint["key"] for taint in taints]
    assert keys == ["dedicated", "gpupool.dev/pool", "noisy"]
    assert homelab.up().objects == []

    homelab.destroy()
    node = homelab.kube.node("k3s-gpu-0")
    assert taken_as_it_was(node) == before
    assert not [key for key in node["metadata"].get("annotations", {}) if "gpupool.dev" in key]
    assert homelab.everything() == everything


def test_an_operator_that_would_undo_the_pools_is_refused_and_one_of_another_name_followed(
    homelab: Any,
) -> None:
    api = homelab.kube.api
    before = homelab.everything()
    policy = hand_made_policy()
    api.delete("nvidia.com/v1", "ClusterPolicy", policy["metadata"]["name"])
    policy["metadata"]["name"] = "gpu-cluster-policy"  # as OLM calls it
    policy["spec"]["mig"] = {"strategy": "single"}  # as the chart has it; no pool is partitioned
    policy["spec"]["devicePlugin"] = {
        "enabled": True,
        "env": [{"name": "CONFIG_FILE", "value": "/config/mine.yaml"}],
        "args": ["--config-file=/config/mine.yaml"],
    }
    homelab.kube.apply(policy)
    with pytest.raises(StackError) as raised:
        homelab.up()
    assert "gpuOperator.clusterPolicy: gpu-cluster-policy" in str(raised.value)
    homelab.spec["gpuOperator"]["clusterPolicy"] = "gpu-cluster-policy"
    with pytest.raises(StackError) as raised:
        homelab.up()
    for name in ("env CONFIG_FILE", "args --config-file"):
        assert f"ClusterPolicy gpu-cluster-policy: spec.devicePlugin.{name}: gpupool derives it" in str(
            raised.value
        )
    assert "mig.strategy" not in str(raised.value)
    del policy["spec"]["devicePlugin"]["env"], policy["spec"]["devicePlugin"]["args"]
    api.delete("nvidia.com/v1", "ClusterPolicy", "gpu-cluster-policy")
    homelab.kube.apply(policy)
    homelab.up()
    live = api.get("nvidia.com/v1", "ClusterPolicy", "gpu-cluster-policy")
    assert live["spec"]["devicePlugin"]["config"]["name"].startswith("gpupool-")
    homelab.destroy()
    assert len(homelab.everything()) == len(before)


def test_a_file_put_back_after_a_repartition(homelab: Any) -> None:
    """The state knows nothing of the repartition: `up` says so, and after a refresh leaves nothing of it."""
    api = homelab.kube.api
    homelab.kube.patch_node(
        "k3s-gpu-0", {"metadata": {"annotations": {"simulated.gpupool.dev/gpu": "rtx-4070-ti-super"}}}
    )

    def offers(count: int) -> None:
        def seen() -> bool:
            return bool(
                homelab.kube.node("k3s-gpu-0")["status"]["allocatable"].get("nvidia.com/gpu") == str(count)
            )

        homelab.kube.wait(f"{count} slices", seen)

    def maps() -> set[str]:
        rows = api.list("v1", "ConfigMap", "gpu-operator", "app.kubernetes.io/managed-by=gpupool")
        return {row["metadata"]["name"] for row in rows}

    homelab.up()
    offers(4)
    before = maps()
    homelab.spec["pools"][0]["sharing"]["replicas"] = 2
    done = repartition(api, read_plan(homelab.file), "homelab", pace=Pace(poll=0.05))
    assert done.status == "done"
    homelab.spec["pools"][0]["sharing"]["replicas"] = 4
    idle = homelab.up()
    assert idle.objects == []
    (note,) = [note for note in idle.notes if "pool homelab" in note]
    assert "1 node has other slices than the file says" in note
    assert "gpupool refresh trial-nodes && gpupool up trial-nodes" in note
    offers(2)
    homelab.refresh()
    restored = homelab.up()
    assert [note for note in restored.notes if note.startswith("removed leftovers of a repartition")]
    offers(4)
    assert maps() == before


def test_taints_that_come_and_go_meanwhile_are_kept_so(homelab: Any) -> None:
    homelab.up()
    live = homelab.kube.node("k3s-gpu-0")["spec"]["taints"]
    later = {"key": "broken-fan", "effect": "NoSchedule"}
    kept = [taint for taint in live if taint["key"] != "noisy"]
    homelab.kube.patch_node("k3s-gpu-0", {"spec": {"taints": [*kept, later]}})
    homelab.up()
    homelab.spec["pools"][0]["taints"] = [{"key": "gpu", "value": "true", "effect": "NoSchedule"}]
    homelab.up()
    keys = {taint["key"] for taint in homelab.kube.node("k3s-gpu-0")["spec"]["taints"]}
    assert keys >= {"dedicated", "broken-fan", "gpu"}
    assert not keys & {"noisy", "gpupool.dev/pool"}
    homelab.destroy()
    _, taints = taken_as_it_was(homelab.kube.node("k3s-gpu-0"))
    assert taints == [later, OWN_TAINTS[0]]


def test_a_node_that_leaves_its_pool_is_given_back(homelab: Any, make_node: Callable[..., str]) -> None:
    make_node("k3s-gpu-1", labels={"gpu": "yes"})
    homelab.kube.patch_node("k3s-gpu-0", {"metadata": {"labels": {"gpu": "yes"}}})
    before = taken_as_it_was(homelab.kube.node("k3s-gpu-1"))
    homelab.spec["pools"][0]["nodes"] = {"selector": {"gpu": "yes"}, "max": 2}
    homelab.up()
    assert taken_as_it_was(homelab.kube.node("k3s-gpu-1")) != before
    homelab.spec["pools"][0]["nodes"] = {"names": ["k3s-gpu-0"]}
    homelab.up()
    assert taken_as_it_was(homelab.kube.node("k3s-gpu-1")) == before


def test_a_label_of_somebody_else_is_a_conflict(homelab: Any) -> None:
    homelab.kube.label("k3s-gpu-0", workload_type="web")
    with pytest.raises(StackError, match=r'label workload-type is "web".*the pool needs "research"'):
        homelab.up()
    assert homelab.kube.node("k3s-gpu-0")["metadata"]["labels"]["workload-type"] == "web"


def test_a_node_that_is_not_there_is_named(homelab: Any) -> None:
    homelab.spec["pools"][0]["nodes"]["names"] = ["k3s-gpu-9"]
    with pytest.raises(StackError, match="node k3s-gpu-9 is not in the cluster"):
        homelab.preview()
    assert homelab.kube.api.get("v1", "Node", "k3s-gpu-9") is None


def test_plain_destroy_asks_for_the_program_and_then_gives_back(
    homelab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = taken_as_it_was(homelab.kube.node("k3s-gpu-0"))
    monkeypatch.setenv("PULUMI_BACKEND_URL", homelab.folder.as_uri())
    homelab.up()
    taken = taken_as_it_was(homelab.kube.node("k3s-gpu-0"))
    engine = binaries.locate("pulumi")
    project = homelab.project()
    variables = {**os.environ, **pulumi_env.environment("static", engine)}

    def destroy(*more: str) -> subprocess.CompletedProcess[str]:
        command = ["pulumi", "destroy", "--yes", "--skip-preview", "--stack", "trial-nodes", *more]
        return subprocess.run(
            command, cwd=project, env=variables, capture_output=True, text=True, timeout=300, check=False
        )

    refused = destroy()
    assert refused.returncode != 0
    assert "--run-program" in refused.stdout + refused.stderr
    assert taken_as_it_was(homelab.kube.node("k3s-gpu-0")) == taken, "refused, so nothing is touched"
    done = destroy("--run-program")
    assert done.returncode == 0, done.stdout + done.stderr
    assert taken_as_it_was(homelab.kube.node("k3s-gpu-0")) == before
