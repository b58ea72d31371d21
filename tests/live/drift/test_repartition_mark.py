"""What is reported while a pool is being repartitioned, and which repairs work then."""

from __future__ import annotations

from tests.live.drift.fake_cluster import Cluster


def _journal(cluster: Cluster) -> None:
    metadata = {"name": "gpupool-repartition", "namespace": "gpupool-system"}
    journal = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    cluster.add({**journal, "data": {"journal.json": '{"pool": "parted"}'}}, "gpupool-repartition", age=600)


def test_repairs_during_a_repartition_work_during_a_repartition() -> None:
    """`up` and `refresh` are refused until it ends, and who uncordons its node sends jobs under its hands."""
    cluster = Cluster()
    _journal(cluster)
    for name in ("node-1", "node-2"):
        cluster.node("parted", name)["spec"]["unschedulable"] = True
    cluster.get("Node", "node-1")["metadata"]["annotations"]["gpupool.dev/repartition"] = "{}"
    cluster.get("ClusterPolicy", "cluster-policy")["spec"]["devicePlugin"]["config"]["name"] = "both-shapes"
    cluster.get("NodePool", "parted")["spec"]["weight"] = 7
    del cluster.objects["v1", "ResourceQuota"]["team-vision", "gpupool"]
    found = {drift.object: (drift.category.value, drift.remediation) for drift in cluster.examine()}
    go_on = "gpupool repartition trial parted"
    assert found["Node node-1"] == ("settling", go_on)
    assert found["NodePool parted"] == ("settling", go_on)
    # Cordoned by somebody else, and gone from elsewhere.
    assert found["Node node-2"] == ("warning", "kubectl uncordon node-2")
    quota = found["ResourceQuota team-vision/gpupool"]
    assert quota == ("drift", f"{go_on} && gpupool refresh trial && gpupool up trial")


def test_karpenter_is_not_waited_for_during_a_repartition() -> None:
    cluster = Cluster()
    _journal(cluster)
    cluster.node("parted", "node-1")
    claim = cluster.get("NodeClaim", "claim-node-1")
    claim["status"]["conditions"].append({"type": "Drifted", "status": "True", "reason": "NodePoolDrifted"})
    (found,) = [drift for drift in cluster.examine() if drift.code == "outdated"]
    assert "Karpenter" not in found.what
    assert found.remediation == "gpupool repartition trial parted"
