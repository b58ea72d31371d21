"""What machines of a cloud are made of: in the file, in the EC2NodeClass, and what can't be."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.findings import SpecError
from gpupool.generators import generate
from gpupool.queue.kubernetes.job_manifest import manifest
from tests.environment.plan.test_reserved import environment
from tests.environment_files import plan_of
from tests.queue.kubernetes.test_policies_take_its_jobs import job

TAINT = {"key": "example.com/agent", "effect": "NoExecute"}
EVERYTHING: dict[str, Any] = {
    "rootVolume": {
        "size": "1Ti",
        "iops": 4000,
        "throughput": 1000,
        "kmsKey": "alias/gpus",
        "snapshot": "snap-0a1b",
    },
    "subnets": [{"id": "subnet-0a1b"}, {"tags": {"tier": "gpu"}}],
    "securityGroups": [{"name": "gpus"}, {"id": "sg-0a1b"}],
    "kubelet": {"maxPods": 60, "systemReserved": {"memory": "1Gi"}, "clusterDNS": ["10.0.0.10"]},
    "startupTaints": [TAINT],
    "placementGroup": {"name": "gpus"},
    "tags": {"team": "ml"},
}


def bodies(**nodes: Any) -> dict[str, Any]:
    return {
        m.kind: m.body.get("spec") for m in generate(plan_of(environment([], **nodes))) if m.name == "pool"
    }


def test_every_detail_is_in_the_words_of_karpenter() -> None:
    spec = bodies(**EVERYTHING)["EC2NodeClass"]
    assert spec["blockDeviceMappings"] == [
        {
            "deviceName": "/dev/xvda",
            "ebs": {
                "volumeSize": "1Ti",
                "volumeType": "gp3",
                "iops": 4000,
                "throughput": 1000,
                "kmsKeyID": "alias/gpus",
                "snapshotID": "snap-0a1b",
                "encrypted": True,
                "deleteOnTermination": True,
            },
        }
    ]
    assert spec["subnetSelectorTerms"] == EVERYTHING["subnets"]
    assert spec["securityGroupSelectorTerms"] == EVERYTHING["securityGroups"]
    assert spec["kubelet"] == EVERYTHING["kubelet"]
    assert spec["placementGroupSelector"] == {"name": "gpus"}
    assert spec["tags"]["team"] == "ml"
    assert spec["tags"]["gpupool.dev/pool"] == "pool"
    pool = bodies(**EVERYTHING)["NodePool"]
    assert pool["template"]["spec"]["startupTaints"] == EVERYTHING["startupTaints"]


def test_without_any_detail_subnets_are_found_by_the_tag_or_as_the_environment_says() -> None:
    found = [{"tags": {"karpenter.sh/discovery": "trial"}}]
    spec = bodies()["EC2NodeClass"]
    assert spec["subnetSelectorTerms"] == spec["securityGroupSelectorTerms"] == found
    assert not {"kubelet", "placementGroupSelector"} & spec.keys()
    data = environment([])
    data["karpenter"] |= {"subnets": [{"id": "subnet-0"}], "securityGroups": [{"id": "sg-0"}]}
    (spec,) = [m.body["spec"] for m in generate(plan_of(data)) if m.kind == "EC2NodeClass"]
    assert spec["subnetSelectorTerms"] == [{"id": "subnet-0"}]
    assert spec["securityGroupSelectorTerms"] == [{"id": "sg-0"}]


def test_jobs_over_several_nodes_ask_for_all_cards_and_one_zone() -> None:
    data = environment([], efa=True)
    data["priorities"] = [{"name": "low", "value": 1, "level": "low"}]
    data["tenants"] = [{"name": "a", "namespace": "team-a", "pools": {"pool": {"gpus": 16}}}]
    plan = plan_of(data)
    (tenant,), (pool,) = plan.tenants, plan.pools

    def spec(**given: Any) -> dict[str, Any]:
        body = manifest(job(plan, tenant, pool, "nvidia.com/gpu", **given), plan, tenant, database="d")
        template: dict[str, Any] = body["spec"]["template"]["spec"]
        return template

    one = spec(gpu_count=8, placement=((0, 8),))
    assert "vpc.amazonaws.com/efa" not in one["containers"][0]["resources"]["limits"]
    assert "podAffinity" not in one.get("affinity", {})
    two = spec(gpu_count=16, placement=((0, 8), (1, 8)))
    assert two["containers"][0]["resources"]["limits"]["vpc.amazonaws.com/efa"] == "4"
    (term,) = two["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "topology.kubernetes.io/zone"
    assert term["labelSelector"]["matchLabels"].keys() == {"gpupool.dev/job", "gpupool.dev/attempt"}


@pytest.mark.parametrize(
    ("changes", "message", "hint"),
    [
        (
            {"gpu": "a10g", "nodes": {"instanceTypes": ["g5.xlarge"], "max": 2}},
            "g5.xlarge has no known EFA",
            "remove it",
        ),
        (
            {"gpu": "h100-80gb", "nodes": {"instanceTypes": ["p5.48xlarge"], "max": 2}}
            | {"sharing": {"mode": "mig", "layout": {"1g.10gb": 7}}},
            "shares its GPUs by mig",
            "use a separate pool",
        ),
    ],
)
def test_efa_is_for_machines_and_jobs_that_have_it(changes: dict[str, Any], message: str, hint: str) -> None:
    data = environment([])
    data["pools"][0] |= changes
    data["pools"][0]["nodes"]["efa"] = True
    with pytest.raises(SpecError) as refused:
        plan_of(data)
    (finding,) = refused.value.findings
    assert message in finding.what
    assert hint in finding.remediation


@pytest.mark.parametrize(
    ("nodes", "path", "message"),
    [
        ({"rootVolume": {"iops": 2999}}, "rootVolume.iops", "3000 to 80000 iops"),
        ({"rootVolume": {"iops": 80001}}, "rootVolume.iops", "3000 to 80000 iops"),
        ({"rootVolume": {"size": "10Gi", "iops": 5001}}, "rootVolume.iops", "3000 to 5000 iops"),
        ({"rootVolume": {"throughput": 124}}, "rootVolume.throughput", "125 to 750 MiB"),
        ({"rootVolume": {"throughput": 751}}, "rootVolume.throughput", "125 to 750 MiB"),
        ({"rootVolume": {"iops": 4000, "throughput": 1001}}, "rootVolume.throughput", "125 to 1000 MiB"),
        ({"rootVolume": {"iops": 80000, "throughput": 2001}}, "rootVolume.throughput", "125 to 2000 MiB"),
        ({"rootVolume": {"type": "gp2", "iops": 3000}}, "rootVolume.iops", "depend on its size"),
        ({"rootVolume": {"type": "io2"}}, "rootVolume", "needs iops"),
        ({"rootVolume": {"type": "io1", "iops": 10001}}, "rootVolume.iops", "100 to 10000 iops"),
        (
            {"rootVolume": {"type": "io2", "iops": 100, "throughput": 200}},
            "rootVolume.throughput",
            "no configurable throughput",
        ),
        ({"rootVolume": {"size": "59001Gi"}}, "rootVolume.size", "59001Gi"),
        ({"rootVolume": {"size": "17Ti", "type": "gp2"}}, "rootVolume.size", "1 to 16384 GiB, not 17Ti"),
        ({"rootVolume": {"size": "3Gi", "type": "io2", "iops": 100}}, "rootVolume.size", "4 to 65536 GiB"),
        (
            {"subnets": [{"id": "subnet-0", "tags": {"a": "b"}}]},
            "subnets[0]",
            "id and tags can't be combined",
        ),
        ({"securityGroups": [{}]}, "securityGroups[0]", "selects nothing"),
        ({"subnets": [{"id": "sg-0"}]}, "subnets[0].id", "sg-0"),
        ({"placementGroup": {"name": "a", "id": "pg-0"}}, "placementGroup", "id and name can't be combined"),
        ({"kubelet": {"maxPods": 7}}, "kubelet.maxPods", "7 pods can't use the 8 slices"),
        ({"kubelet": {"evictionSoft": {"memory.available": "1Gi"}}}, "kubelet", "no evictionSoftGracePeriod"),
        (
            {"kubelet": {"imageGCHighThresholdPercent": 70, "imageGCLowThresholdPercent": 70}},
            "kubelet.imageGCLowThresholdPercent",
            "not lower",
        ),
        (
            {"kubelet": {"evictionHard": {"memory.available": "101%"}}},
            'kubelet.evictionHard["memory.available"]',
            "101%",
        ),
        ({"kubelet": {"systemReserved": {"cpu": "-1"}}}, "kubelet.systemReserved.cpu", "-1"),
        ({"kubelet": {"clusterDNS": ["10.0.0.300"]}}, "kubelet.clusterDNS[0]", "10.0.0.300"),
        ({"kubelet": {"imageGCLowThresholdPercent": 85}}, "kubelet.imageGCLowThresholdPercent", "not lower"),
        (
            {"kubelet": {"imageGCHighThresholdPercent": 80}},
            "kubelet.imageGCHighThresholdPercent",
            "not lower",
        ),
        ({"startupTaints": [TAINT, TAINT]}, "startupTaints[1]", "appears twice"),
        (
            {"startupTaints": [{**TAINT, "key": "gpupool.dev/pool"}]},
            "startupTaints[0].key",
            "gpupool sets it",
        ),
        ({"efa": True, "warm": 1}, "efa", "a warm node has no EFA"),
        ({"tags": {"gpupool.dev/pool": "x"}}, 'tags["gpupool.dev/pool"]', "set by gpupool"),
        (
            {"tags": {"kubernetes.io/cluster/x": "a"}},
            'tags["kubernetes.io/cluster/x"]',
            "EKS or Karpenter",
        ),
    ],
)
def test_what_can_not_be_is_refused(nodes: dict[str, Any], path: str, message: str) -> None:
    with pytest.raises(SpecError) as refused:
        plan_of(environment([], **nodes))
    (finding,) = refused.value.findings
    assert finding.path == f"pools[0].nodes.{path}"
    assert message in finding.what
