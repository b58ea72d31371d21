"""What keeps tenants within what they were given: quotas, taints, roles."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest

from gpupool.environment.plan.pods import pod_fields
from gpupool.environment.plan.priority_classes import counted_apart
from gpupool.generators import restricted_pod
from gpupool.live.cluster.kube_api import ApiError
from gpupool.local.control_plane import ControlPlane
from gpupool.programs import binaries
from tests.cluster.pools.command_line import CommandLine
from tests.cluster.pools.pods import make_pods


def test_quota_refuses_and_taints_hold(gpupool: CommandLine, cluster: Any) -> None:
    gpupool.up()
    pool = gpupool.plan.pool("inference-mig")
    large = ["nvidia.com/mig-3g.40gb"]
    # What a new quota allows is enforced from when its controller has counted for the first time.
    cluster.wait("the quota is counted", lambda: used(cluster, "team-serving", large[0]) == "0")
    make_pods(cluster, pool, large * 8, namespace="team-serving")
    with pytest.raises(
        ApiError, match=r"exceeded quota: gpupool.*limited: requests.nvidia.com/mig-3g.40gb=8"
    ):
        make_pods(cluster, pool, large, first=8, namespace="team-serving")
    # The quota holds, and from when policies are enforced they refuse it before: some seconds after `up`.
    with pytest.raises(ApiError, match=r"exceeded quota|pool inference-mig offers"):
        make_pods(cluster, pool, ["nvidia.com/gpu"], first=9, namespace="team-serving")

    training = gpupool.plan.pool("training")
    make_pods(cluster, training, ["nvidia.com/gpu"], tolerate=False)
    make_pods(cluster, training, ["nvidia.com/gpu"], first=1)
    cluster.wait("the tolerating pod runs", lambda: cluster.running("default", "of=training"))
    cluster.stays(
        "the other one waits",
        lambda: (
            [pod["metadata"]["name"] for pod in cluster.running("default", "of=training")] == ["training-1"]
        ),
        3.0,
    )


def test_pools_and_quotas_grow_together(gpupool: CommandLine, cluster: Any) -> None:
    """A preview is tried by the server, whose policies still judge by the pools of before."""
    gpupool.up()
    foreign = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "typed-by-hand", "namespace": "team-vision"},
        "spec": {"hard": {"requests.nvidia.com/gpu": "5000"}},
    }

    def refused() -> bool:
        path = "/api/v1/namespaces/team-vision/resourcequotas"
        try:
            cluster.api.request("POST", path, {"dryRun": "All"}, foreign)
        except ApiError as error:
            return "all pools together have" in str(error)
        return False

    cluster.wait("policies are in force", refused, 120)

    def grow(data: dict[str, Any]) -> None:
        pool = next(pool for pool in data["pools"] if pool["name"] == "training")
        pool["nodes"]["max"] = 100
        data["tenants"][0]["pools"]["training"] = {"gpus": 396}  # the other tenant has 4

    gpupool.change(grow)
    wanted = {("NodePool", "training"), ("ResourceQuota", "gpupool"), ("ConfigMap", "gpupool-pools")}
    # No tenant borrows any more, so that no pod carries a class of what is borrowed.
    pools = counted_apart(gpupool.plan, gpupool.plan.tenants[0])
    wanted |= {("PriorityClass", "gpupool-borrowed")}
    wanted |= {("PriorityClass", f"gpupool-borrowed.{pool}") for pool in pools}
    wanted |= {("ResourceQuota", f"gpupool.{pool}") for pool in pools}
    wanted |= {("ResourceQuota", "gpupool-granted"), ("ResourceQuota", "gpupool-granted.training")}
    wanted |= {("ConfigMap", "gpupool-owners"), ("ConfigMap", "gpupool-tenants")}
    assert gpupool.touched(gpupool.json("preview")) == wanted
    assert gpupool.touched(gpupool.up()) == wanted


def test_slices_of_one_pool_do_not_pay_for_gpus_of_another(gpupool: CommandLine, cluster: Any) -> None:
    """The tenant has 4 of the pool's 8 whole GPUs, and 8 slices of another pool under the same name."""
    gpupool.up()
    pool, namespace = gpupool.plan.pool("training"), "team-serving"
    cluster.wait(
        "the pool's quota is counted",
        lambda: used(cluster, namespace, "nvidia.com/gpu", "gpupool.training") == "0",
    )

    def create(number: int, priority_class: str | None) -> None:
        fields = pod_fields(pool, "nvidia.com/gpu", 4, priority_class)
        container = {"name": "own", "image": "registry.example/work:1", **restricted_pod.CONTAINER}
        cluster.api.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"whole-{number}", "namespace": namespace},
                "spec": {
                    **fields.spec,
                    **restricted_pod.POD,
                    "containers": [container | {"resources": {"limits": fields.limits}}],
                },
            }
        )

    def refused(priority_class: str | None, why: str) -> bool:
        try:
            create(9, priority_class)
        except ApiError as error:
            return re.search(why, str(error)) is not None
        cluster.api.delete("v1", "Pod", "whole-9", namespace, grace=0)
        return False

    cluster.wait("policies are in force", lambda: refused(None, "pool training needs one of"), 120)
    assert refused(
        "training.batch-a10g", "pool training needs one of the priority classes .*training.training"
    )
    create(1, "training.training")
    assert used(cluster, namespace, "nvidia.com/gpu", "gpupool.training") == "4"
    assert refused("production-inference.training", r"exceeded quota: gpupool.training.*nvidia.com/gpu=4")


def used(kube: Any, namespace: str, resource: str, quota: str = "gpupool") -> Any:
    """How much of a resource the namespace's quota counts as used; None as long as nothing is counted."""
    status = kube.get("v1", "ResourceQuota", quota, namespace).get("status", {})
    return status.get("used", {}).get(f"requests.{resource}")


def can(plane: ControlPlane, verb: str, resource: str, namespace: str, user: str) -> bool:
    kubectl = [str(binaries.locate("kubectl")), "--kubeconfig", str(plane.kubeconfig)]
    kind, _, subresource = resource.partition("/")  # kubectl takes kind/name for one object
    question = ["auth", "can-i", verb, kind, "--subresource", subresource, "-n", namespace, "--as", user]
    done = subprocess.run([*kubectl, *question], capture_output=True, text=True, check=False)
    return done.stdout.strip() == "yes"


def test_roles_reach_no_further_than_the_tenant(gpupool: CommandLine, control_plane: ControlPlane) -> None:
    gpupool.change(
        lambda data: data["tenants"][0].update(access={"serviceAccounts": ["team-vision/pipelines"]})
    )
    gpupool.up()
    tenant = "system:serviceaccount:team-vision:pipelines"
    launcher = "system:serviceaccount:gpupool-system:gpupool-launcher"
    assert can(control_plane, "create", "jobs.batch", "team-vision", tenant)
    assert can(control_plane, "create", "jobs.batch", "team-serving", launcher)
    assert not can(control_plane, "create", "jobs.batch", "team-serving", tenant)
    assert not can(control_plane, "update", "resourcequotas", "team-vision", tenant)
    assert not can(control_plane, "create", "jobs.batch", "default", launcher)
    assert not can(control_plane, "get", "secrets", "team-vision", launcher)
    assert not can(control_plane, "patch", "nodes", "default", launcher)
    assert can(control_plane, "watch", "nodes", "default", launcher)
    assert can(control_plane, "list", "pods", "default", launcher)
    assert not can(control_plane, "list", "nodeclaims.karpenter.sh", "default", launcher)
    assert can(control_plane, "watch", "jobs.batch", "default", launcher)
    assert can(control_plane, "patch", "pods", "team-vision", launcher)
    assert can(control_plane, "get", "pods/log", "team-vision", launcher)
    assert can(control_plane, "create", "services", "team-vision", launcher)
    for verb in ("create", "patch", "delete"):
        assert not can(control_plane, verb, "pods", "default", launcher)
    api = "system:serviceaccount:gpupool-system:gpupool-api"
    assert can(control_plane, "create", "tokenreviews.authentication.k8s.io", "default", api)
    assert not can(control_plane, "list", "pods", "team-vision", api)
