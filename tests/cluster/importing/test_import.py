"""`gpupool import` of clusters that gpupool made: the same objects again, and nothing that `assert` minds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from gpupool.adopt.convert.draft import Choices
from gpupool.adopt.importing.live import gather, import_environment
from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.resolve import read_plan, resolve
from gpupool.environment.spec.load import check_shape
from gpupool.environment.spec.yaml_source import parse_source
from gpupool.findings import GpupoolError
from gpupool.generators import generate
from gpupool.live.drift.check import assert_environment
from gpupool.live.rollback import last_good
from tests.cluster.operator_policy import hand_made_policy
from tests.cluster.pools.command_line import SHIPPED


def plan_from(text: str, name: str) -> Plan:
    return resolve(check_shape(parse_source(f"{name}.yaml", text.encode())))


def objects(plan: Plan) -> dict[Any, Any]:
    return {manifest.key: (manifest.body, manifest.patch) for manifest in generate(plan)}


CHECK = {
    "image": "registry.example.org/gpupool:0.1.0",
    "schedule": "0 * * * *",
    "pushgateway": "http://push:9091",
}


def imported(kube: Any, name: str, recorded: bool = False) -> str:
    """The text of the imported file; everything that the objects say is in it."""
    found = import_environment(kube.api, Choices(name=name), recorded=recorded)
    about = [str(entry) for entry in found.conversion.leftovers if entry.category != "assumed"]
    assert not about, about
    assert found.recorded == recorded
    return found.conversion.text


def test_a_cluster_with_karpenter(bring: Callable[[Plan], None], cluster: Any) -> None:
    original = read_plan("local")
    bring(original)
    text = imported(cluster, "local")
    derived = plan_from(text, "local")
    assert objects(derived) == objects(original)
    cluster.wait("the cluster is what the imported file says", lambda: clean(derived, cluster), 120)
    # A good state that was noted says more than any object: weights, prose, budgets.
    last_good.record(cluster.api, original, original.text, datetime.now(UTC))
    assert imported(cluster, "local", recorded=True) == original.text
    # Under another name everything that is lost is listed, and whose cluster it is.
    mine = import_environment(cluster.api, Choices(name="mine")).conversion
    reported = {entry.path: entry for entry in mine.leftovers if entry.object == "environment local"}
    assert "belong to environment local" in reported[""].what
    assert {"pools[notebooks].description", "tenants[vision].weight"} <= set(reported)
    assert {"pools[research-a100].fallbackTo", "tenants[vision].weight"} <= set(reported)
    (only,) = assert_environment(plan_from(mine.text, "mine"), cluster.api).drifts
    assert only.code == "other-environment"
    # But not once the cluster is something else.
    cluster.api.delete("karpenter.sh/v1", "NodePool", "training")
    changed = import_environment(cluster.api, Choices(name="local"))
    assert not changed.recorded
    assert "training" not in changed.conversion.pools


def clean(plan: Plan, kube: Any) -> bool:
    outcome = assert_environment(plan, kube.api)
    assert outcome.clean, [str(drift) for drift in outcome.drifts]
    return True


def home(make_node: Any, cluster: Any) -> Plan:
    """A home lab's environment, whose node is there, with an operator of its own."""
    data = yaml.safe_load((SHIPPED.parent / "homelab.yaml").read_text(encoding="utf-8"))
    data["gpuOperator"] = {"install": False}
    data["monitoring"] = {"assertion": CHECK}
    data["pools"][0]["taints"] = [{"key": "gpu", "value": "true", "effect": "NoSchedule"}]
    make_node(
        "k3s-gpu-0",
        labels={"rack": "desk"},
        annotations={"simulated.gpupool.dev/gpu": "rtx-4070-ti-super", "simulated.gpupool.dev/gpus": "1"},
        taints=[{"key": "dedicated", "value": "lab", "effect": "PreferNoSchedule"}],
    )
    cluster.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-operator"}})
    cluster.apply(hand_made_policy())
    return plan_from(yaml.safe_dump(data, sort_keys=False), "homelab")


def test_nodes_that_exist_already(bring: Callable[[Plan], None], make_node: Any, cluster: Any) -> None:
    original = home(make_node, cluster)
    bring(original)
    cluster.wait(
        "the operator has shared the GPU",
        lambda: cluster.node("k3s-gpu-0")["status"]["allocatable"].get("nvidia.com/gpu") == "4",
        120,
    )
    derived = plan_from(imported(cluster, "homelab"), "homelab")
    assert derived.assertion == original.assertion
    assert objects(replace(derived, assertion=None)) == objects(replace(original, assertion=None))
    (pool,) = derived.pools
    assert (pool.name, pool.gpu.key, pool.node_names) == ("desk", "rtx-4070-ti-super", ("k3s-gpu-0",))
    assert pool.labels["workload-type"] == "homelab"
    assert "rack" not in pool.labels, "a label of the node's own is not the pool's"
    # The cluster's own check reads the file, so the file is there to be had as it is.
    text = imported(cluster, "homelab", recorded=True)
    assert text == original.text
    kept = plan_from(text, "homelab")
    cluster.wait("the cluster is what the imported file says", lambda: clean(kept, cluster), 120)


def test_a_cluster_made_by_hand(cluster: Any, make_node: Any) -> None:
    """Two labelled nodes, the configurations that somebody wrote, and a node without a GPU."""
    text = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 3}]}}\n"
    policy = hand_made_policy()
    policy["spec"]["devicePlugin"] = {"enabled": True, "config": {"name": "sharing", "default": "thirds"}}
    cluster.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-operator"}})
    about = {"name": "sharing", "namespace": "gpu-operator"}
    cluster.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": {"thirds": text}}, policy
    )
    for name in ("rack-a", "rack-b"):
        make_node(name, annotations={"simulated.gpupool.dev/gpu": "l4", "simulated.gpupool.dev/gpus": "2"})
    make_node("plain")
    for name in ("rack-a", "rack-b"):
        cluster.wait(
            f"{name} offers slices",
            lambda name=name: cluster.node(name)["status"]["allocatable"].get("nvidia.com/gpu") == "6",
            60,
        )
    found = import_environment(cluster.api, Choices(name="rack"))
    data = yaml.safe_load(found.conversion.text)
    (pool,) = data["pools"]
    assert pool["gpu"] == "l4"
    assert pool["sharing"] == {"mode": "time-slicing", "replicas": 3}
    assert pool["nodes"] == {"names": ["rack-a", "rack-b"], "gpus": 2}
    assert data["gpuOperator"]["install"] is False
    assert found.conversion.findings == ()


def test_the_number_of_requests_does_not_grow_with_the_cluster(cluster: Any, make_node: Any) -> None:
    before = gather(cluster.api).requests
    for number in range(8):
        about = {"name": f"n{number}", "labels": {"nvidia.com/gpu.product": "NVIDIA-L4"}}
        cluster.api.create({"apiVersion": "v1", "kind": "Node", "metadata": about})
        cluster.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"team-{number}"}})
    seen = gather(cluster.api)
    objects, after = seen.objects, seen.requests
    assert after == before
    assert len([thing for thing in objects if thing["kind"] == "Node"]) == 8


def test_an_empty_cluster_is_said_to_be_one(cluster: Any) -> None:
    with pytest.raises(GpupoolError, match="no GPU pools"):
        import_environment(cluster.api, Choices(name="empty"))
