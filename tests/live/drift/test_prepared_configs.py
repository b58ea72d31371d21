"""A label is put on a node only where the cluster has what it names."""

from __future__ import annotations

from gpupool.generators import generate
from gpupool.live.drift import Drift
from tests.live.drift.fake_cluster import EKS, Cluster, plan_of

MIG, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
EDITED = EKS.replace("{3g.40gb: 2}", "{2g.20gb: 3}")


def _edited() -> Cluster:
    """A cluster as it was applied, and a file that was edited since."""
    cluster = Cluster()
    cluster.node("shared")
    cluster.node("parted", "node-1")
    cluster.plan = plan_of(EDITED)
    cluster.bundle = generate(cluster.plan)
    return cluster


def _of(cluster: Cluster, kind: str) -> Drift:
    (found,) = [drift for drift in cluster.examine() if drift.code == kind]
    return found


def test_a_file_that_is_not_applied_yet_takes_no_layout_from_a_node() -> None:
    found = _of(_edited(), "wrong-config-key")
    assert (found.object, found.wanted) == ("Node node-1", "3x2g.20gb")
    assert found.remediation == "gpupool repartition trial parted"


def test_another_pool_of_an_edited_file_has_its_label_back_at_once() -> None:
    """Its own configuration is the same in the file and in the cluster."""
    cluster = _edited()
    cluster.get("Node", "node-0")["metadata"]["labels"]["nvidia.com/device-plugin.config"] = "other"
    found = [drift for drift in cluster.examine() if drift.object == "Node node-0"]
    assert [drift.remediation for drift in found] == [
        "kubectl label node node-0 nvidia.com/device-plugin.config=shared --overwrite"
    ]


def test_settings_edited_by_hand_are_restored_before_the_label() -> None:
    cluster = Cluster()
    cluster.node("parted", "node-1", **{MIG: "other"})
    row = next(r for r in cluster.of("ConfigMap") if r["metadata"]["name"].startswith("gpupool-mig-"))
    row["data"]["config.yaml"] = "mig-configs: {}"
    found = _of(cluster, "wrong-config-key")
    assert found.remediation == (
        "gpupool refresh trial && gpupool up trial"
        " && kubectl label node node-1 nvidia.com/mig.config=2x3g.40gb --overwrite"
    )


def test_a_node_that_failed_for_want_of_its_layout_goes_back_before_anything_else() -> None:
    cluster = _edited()
    cluster.get("Node", "node-1")["metadata"]["labels"] |= {MIG: "3x2g.20gb", STATE: "failed"}
    found = _of(cluster, "mig-failed")
    assert 'the configuration in the cluster has no layout "3x2g.20gb", fix that first' in found.what
    assert found.remediation == (
        "kubectl label node node-1 nvidia.com/mig.config=2x3g.40gb --overwrite"
        " && gpupool repartition trial parted"
    )


def test_a_node_that_failed_for_another_reason_tries_again() -> None:
    cluster = Cluster()
    cluster.node("parted", "node-1", **{STATE: "failed"})
    found = _of(cluster, "mig-failed")
    assert "retries only when the label changes" in found.what
    assert found.remediation.startswith("kubectl label node node-1 nvidia.com/mig.config=all-disabled")
