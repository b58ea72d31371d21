"""A change of the file is the smallest change of the cluster, and reaches the nodes."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.environment.plan.model import POOL_LABEL, Pool
from gpupool.local import sample_jobs
from tests.cluster.kube import PATIENCE_SECONDS
from tests.cluster.pools.command_line import CommandLine, Object
from tests.cluster.pools.pods import make_pods, nodes_of, running_on
from tests.environment_files import environment_data

SMALL = environment_data(
    "local",
    name="local",
    pools=[
        {
            "name": "sliced",
            "gpu": "a100-80gb",
            "sharing": {"mode": "time-slicing", "replicas": 3},
            "nodes": {"instanceTypes": ["p4de.24xlarge"], "max": 2, "consolidateAfter": "1h"},
        },
        {
            "name": "parted",
            "gpu": "a100-80gb",
            "sharing": {"mode": "mig", "layout": {"3g.40gb": 1, "2g.20gb": 2}},
            "nodes": {"instanceTypes": ["p4de.24xlarge"], "max": 3, "consolidateAfter": "1h"},
        },
    ],
    tenants=[
        {
            "name": "vision",
            "namespace": "team-vision",
            "pools": {"sliced": {"gpus": 4}, "parted": {"profiles": {"3g.40gb": 8, "2g.20gb": 8}}},
        }
    ],
)
PLUGIN = ("ConfigMap", "gpupool-device-plugin")
LAYOUTS = ("ConfigMap", "gpupool-mig")
POLICY = ("ClusterPolicy", "cluster-policy")
PARAMETERS = ("ConfigMap", "gpupool-pools")
"""What admission policies judge by."""


@pytest.fixture
def small(gpupool: CommandLine, cluster: Any) -> CommandLine:
    """Two pools, one node each, with a pod on it."""
    gpupool.write(SMALL)
    gpupool.up()
    for pool in gpupool.plan.pools:
        make_pods(cluster, pool, [next(iter(pool.slices_per_node))])
    for pool in gpupool.plan.pools:
        cluster.wait(f"a pod of {pool.name} runs", lambda p=pool: running_on(cluster, p, 1))
        cluster.wait(f"the node of {pool.name} is settled", lambda p=pool: settled(cluster, p))
    return gpupool


def settled(kube: Any, pool: Pool) -> bool:
    """Whether Karpenter and the operator are done with the pool's node."""
    found = node(kube, pool.name)
    assert found["labels"].get("karpenter.sh/initialized") == "true"
    assert found["labels"].get("nvidia.com/gpu.product")
    if pool.mig_config:
        assert found["labels"].get("nvidia.com/mig.config.state") == "success"
    return all(found["allocatable"].get(name) == str(count) for name, count in pool.slices_per_node.items())


def node(kube: Any, pool: str) -> Object:
    """The one node of a pool, without what changes by itself."""
    (found,) = kube.nodes(f"{POOL_LABEL}={pool}")
    return {
        "uid": found["metadata"]["uid"],
        "labels": found["metadata"]["labels"],
        "taints": found["spec"].get("taints"),
        "allocatable": found["status"]["allocatable"],
    }


def offers(kube: Any, pool: str, resource: str, count: int) -> bool:
    found = [each["status"]["allocatable"].get(resource) for each in kube.nodes(f"{POOL_LABEL}={pool}")]
    assert found == [str(count)] * len(found), f"{pool} offers {found} of {resource}"
    return bool(found)


def test_replicas_reach_the_nodes_without_replacing_them(small: CommandLine, cluster: Any) -> None:
    before, other = node(cluster, "sliced"), node(cluster, "parted")

    def edit(data: Object) -> None:
        data["pools"][0]["sharing"]["replicas"] = 4

    small.change(edit)
    expected = {
        PLUGIN,
        POLICY,
        PARAMETERS,
        ("NodeOverlay", "sliced"),
        ("NodePool", "sliced"),
        ("ResourceQuota", "gpupool"),
    }
    assert small.touched(small.json("preview")) == expected
    assert small.touched(small.up()) == expected
    cluster.wait("32 slices", lambda: offers(cluster, "sliced", "nvidia.com/gpu", 32))
    after = node(cluster, "sliced")
    assert after["uid"] == before["uid"], "a plugin restart is enough for time-slicing"
    cluster.stays("the other pool's node is untouched", lambda: node(cluster, "parted") == other, 2.0)
    assert small.touched(small.up()) == set(), "a second up changes nothing"
    maps = [m["metadata"]["name"] for m in cluster.api.list("v1", "ConfigMap", "gpu-operator")]
    assert len([name for name in maps if name.startswith("gpupool-device-plugin")]) == 1, (
        "the old one is gone"
    )


def test_layout_replaces_nodes_within_the_budget(small: CommandLine, cluster: Any) -> None:
    parted = small.plan.pool("parted")
    with cluster.at_once():
        make_pods(cluster, parted, ["nvidia.com/mig-3g.40gb"] * 8, first=100)
    cluster.wait("two nodes", lambda: running_on(cluster, parted, 9))
    old = set(nodes_of(cluster, parted))
    assert len(old) == 2
    other = node(cluster, "sliced")

    def edit(data: Object) -> None:
        data["pools"][1]["sharing"]["layout"] = {"3g.40gb": 2}
        data["tenants"][0]["pools"]["parted"] = {"profiles": {"3g.40gb": 8}}

    small.change(edit)
    expected = {
        LAYOUTS,
        POLICY,
        PARAMETERS,
        ("NodeOverlay", "parted"),
        ("NodePool", "parted"),
        ("ResourceQuota", "gpupool"),
    }
    assert small.touched(small.json("preview")) == expected
    small.up()
    together: list[list[str]] = []

    def replaced() -> bool:
        draining = [
            each["metadata"]["name"]
            for each in cluster.nodes(f"{POOL_LABEL}=parted")
            if any(taint["key"] == "karpenter.sh/disrupted" for taint in each["spec"].get("taints", []))
        ]
        together.extend([draining] * (len(draining) > 1))
        left = old & set(nodes_of(cluster, parted))
        assert not left, f"still there: {left}"
        return True

    cluster.wait("every node of the old layout is replaced", replaced, 400)
    assert not together, "one node at a time may go"
    for each in cluster.nodes(f"{POOL_LABEL}=parted"):
        assert each["metadata"]["labels"]["nvidia.com/mig.config"] == "2x3g.40gb"
        cluster.wait("the new layout", lambda n=each: _is_laid_out(cluster, n["metadata"]["name"]))
    assert node(cluster, "sliced") == other


def _is_laid_out(kube: Any, name: str) -> bool:
    found = kube.node(name)
    assert found["metadata"]["labels"].get("nvidia.com/mig.config.state") == "success"
    assert found["status"]["allocatable"].get("nvidia.com/mig-3g.40gb") == "16"
    return True


def test_pools_come_go_and_are_renamed(small: CommandLine, cluster: Any) -> None:
    kept = node(cluster, "sliced")
    third = {**SMALL["pools"][0], "name": "third", "sharing": {"mode": "mps", "replicas": 2}}  # type: ignore[index]

    small.change(lambda data: data["pools"].append(third))
    expected = {PLUGIN, POLICY, PARAMETERS, ("NodeOverlay", "third"), ("NodePool", "third")}
    assert small.touched(small.json("preview")) == expected
    assert small.touched(small.up()) == expected

    small.change(lambda data: data["pools"][2].update(name="renamed"))
    expected |= {("NodeOverlay", "renamed"), ("NodePool", "renamed")}
    assert small.touched(small.up()) == expected

    small.change(lambda data: data["pools"].pop())
    assert small.touched(small.up()) == expected - {("NodeOverlay", "third"), ("NodePool", "third")}
    assert node(cluster, "sliced") == kept

    def without_parted(data: Object) -> None:
        data["pools"].pop(1)
        del data["tenants"][0]["pools"]["parted"]

    small.change(without_parted)
    small.up()
    cluster.wait("the removed pool's nodes go", lambda: not cluster.nodes(f"{POOL_LABEL}=parted"))
    assert node(cluster, "sliced") == kept


def test_a_lowered_quota_touches_the_quota_alone(small: CommandLine, cluster: Any) -> None:
    small.change(lambda data: data["tenants"][0]["pools"]["sliced"].update(gpus=1))
    assert small.touched(small.json("preview")) == {("ResourceQuota", "gpupool")}
    assert small.touched(small.up()) == {("ResourceQuota", "gpupool")}
    quota = cluster.get("v1", "ResourceQuota", "gpupool", "team-vision")
    assert quota["spec"]["hard"]["requests.nvidia.com/gpu"] == "3"


def test_samples_follow_a_pool_that_changes_its_shape(
    small: CommandLine, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `make up` runs again after the file has changed."""
    monkeypatch.setattr(sample_jobs, "_TIMEOUT_S", PATIENCE_SECONDS)

    def pods() -> dict[str, str]:
        found = cluster.pods("team-vision", "gpupool.dev/sample")
        return {
            pod["metadata"]["labels"]["gpupool.dev/sample"]: pod["metadata"]["name"]
            for pod in found
            if "deletionTimestamp" not in pod["metadata"]
        }

    assert all(state.running for state in sample_jobs.run(small.plan, cluster.api, lambda _: None))
    first = pods()
    assert all(state.running for state in sample_jobs.run(small.plan, cluster.api, lambda _: None))
    assert pods() == first, "again changes nothing"

    def edit(data: Object) -> None:
        data["pools"][1]["sharing"]["layout"] = {"2g.20gb": 3}
        data["tenants"][0]["pools"]["parted"] = {"profiles": {"2g.20gb": 8}}

    small.change(edit)
    small.up()
    assert all(state.running for state in sample_jobs.run(small.plan, cluster.api, lambda _: None))
    # Not said of the pod of before, which runs on until the cluster has noticed that its job is gone.
    cluster.wait("its pod goes", lambda: first["parted"] not in pods().values())
    after = pods()
    assert after["sliced"] == first["sliced"]
    assert set(after) == set(first)
