"""`gpupool doctor` on a real API server, for an account that begins with no rights at all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupool.adopt.doctor import kinds
from gpupool.adopt.doctor import needed_rights as rights
from gpupool.adopt.doctor.checks import CHECKS, diagnose
from gpupool.adopt.doctor.model import Diagnosis, DoctorInput, NamedCluster
from gpupool.adopt.doctor.reasons import Reason
from gpupool.environment.plan.resolve import read_plan
from gpupool.findings import GpupoolError
from gpupool.generators import generate
from gpupool.generators.manifest import Bundle, HelmRelease, Manifest, bundle
from tests.cluster.operator_policy import hand_made_policy
from tests.command import gpupool

ACCOUNT = "trial-deployer"
CHART = {
    "repository": "oci://registry.example.com/charts",
    "version": "1.2.3",
    "image": "registry.example.com/q:1.2.3",
}


def looked(world: Any) -> Diagnosis:
    return diagnose(world.file, lambda _: None)


def reasons(diagnosis: Diagnosis, check: str) -> list[Reason]:
    return [result.reason for result in diagnosis.results if result.check == check]


def messages(diagnosis: Diagnosis, reason: Reason) -> str:
    return "\n".join(
        f"{r.subject}: {r.message} -> {r.remediation}" for r in diagnosis.results if r.reason is reason
    )


@pytest.fixture
def deployer(homelab: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """`homelab`, with a tenant, worked on as a service account without rights."""
    api = homelab.kube.api
    api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}})
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = api.request("POST", f"/api/v1/namespaces/default/serviceaccounts/{ACCOUNT}/token", None, review)[
        1
    ]
    config = yaml.safe_load((tmp_path / "local" / "kubeconfig").read_text())
    for user in config["users"]:
        user["user"] = {"token": token["status"]["token"]}
    path = tmp_path / "deployer.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(path))
    homelab.spec["priorities"] = [{"name": "trial-training", "value": 500, "level": "high"}]
    tenant = {"name": "vision", "namespace": "trial-vision", "pools": {"homelab": {"gpus": 1}}}
    homelab.spec["tenants"] = [{**tenant, "access": {"serviceAccounts": ["trial-vision/runner"]}}]
    yield homelab
    api.delete("v1", "ServiceAccount", ACCOUNT, "default")


def test_what_an_account_lacks_is_what_lets_it_run_up_and_destroy(deployer: Any) -> None:
    """The rights that doctor names are enough: granted as it prints them, `up` and `destroy` succeed."""
    before = deployer.everything()
    lacking = looked(deployer)
    assert not lacking.ready
    assert Reason.RIGHTS_MISSING in reasons(lacking, "rights")
    assert Reason.RIGHTS_ESCALATION in reasons(lacking, "rights")
    assert reasons(lacking, "nodes") == [Reason.FORBIDDEN]
    with pytest.raises(GpupoolError):
        deployer.up()

    printed = gpupool("doctor", deployer.file, "--grant", folder=deployer.folder)
    assert printed.returncode == 1
    objects = list(yaml.safe_load_all(printed.stdout))
    assert [thing["kind"] for thing in objects] == ["ClusterRole", "ClusterRoleBinding"]
    assert objects[1]["subjects"] == [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": "default"}]
    assert not any("*" in rule["verbs"] + rule["resources"] for rule in objects[0]["rules"])
    for thing in objects:
        deployer.kube.api.create(thing)

    enough = looked(deployer)
    assert reasons(enough, "rights")[0] is Reason.RIGHTS_ENOUGH
    assert enough.ready, [row.message for row in enough.results if row.blocks]
    assert enough.grant == ()
    deployer.up()
    deployer.destroy()
    for thing in objects:
        deployer.kube.api.delete(thing["apiVersion"], thing["kind"], thing["metadata"]["name"])
    assert deployer.everything() == before


def test_an_account_without_rights_and_a_file_with_charts(deployer: Any) -> None:
    """Every check says something, and none ends the others; with the printed rights each can look."""
    deployer.spec["queue"] = {
        "chart": CHART,
        "database": {"secretRef": {"name": "queue-database", "key": "url"}},
    }
    deployer.spec["gpuOperator"] = {"install": True}
    lacking = looked(deployer)
    assert {row.check for row in lacking.results} == {"file", "context", *(check.name for check in CHECKS)}
    assert Reason.BROKEN not in {row.reason for row in lacking.results}
    for check in ("tenants", "workloads", "claims"):
        assert reasons(lacking, check) == [Reason.FORBIDDEN], check
    for thing in lacking.grant:
        deployer.kube.api.create(thing)
    enough = looked(deployer)
    for check in ("tenants", "workloads", "claims"):
        assert Reason.FORBIDDEN not in reasons(enough, check), check
    for thing in lacking.grant:
        deployer.kube.api.delete(thing["apiVersion"], thing["kind"], thing["metadata"]["name"])


def test_an_operator_in_another_namespace_is_refused_as_a_whole_and_then_followed(homelab: Any) -> None:
    policy = {**hand_made_policy()}
    policy["metadata"] = {
        **policy["metadata"],
        "annotations": {"simulated.gpupool.dev/namespace": "nvidia-gpu-operator"},
    }
    api = homelab.kube.api
    homelab.kube.apply(policy)
    homelab.kube.wait(
        "the operator says where it runs",
        lambda: (
            (
                homelab.kube.get("nvidia.com/v1", "ClusterPolicy", policy["metadata"]["name"]).get("status")
                or {}
            ).get("namespace")
            == "nvidia-gpu-operator"
        ),
    )
    before = homelab.everything()
    found = looked(homelab)
    assert "write gpuOperator.namespace: nvidia-gpu-operator" in messages(found, Reason.OPERATOR_UNFIT)
    with pytest.raises(GpupoolError, match=r"write gpuOperator\.namespace: nvidia-gpu-operator"):
        homelab.up()
    assert homelab.everything() == before, "nothing was applied"

    homelab.spec["gpuOperator"]["namespace"] = "nvidia-gpu-operator"
    with pytest.raises(GpupoolError, match="namespace nvidia-gpu-operator"):
        homelab.up()
    assert homelab.everything() == before, "nothing was applied"
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "nvidia-gpu-operator"}}
    api.create(space)
    try:
        assert reasons(looked(homelab), "operator") == [Reason.OPERATOR_FOREIGN]
        homelab.up()
        maps = [m["metadata"]["name"] for m in api.list("v1", "ConfigMap", "nvidia-gpu-operator")]
        assert any(name.startswith("gpupool-device-plugin-") for name in maps)
        homelab.destroy()
    finally:
        api.delete("v1", "Namespace", "nvidia-gpu-operator")


def test_each_right_is_needed_for_something_of_the_bundle(deployer: Any) -> None:
    """No right is named for a resource that the cluster does not have."""
    api = deployer.kube.api
    served = set[str]()
    for version in [
        "v1",
        *(g["preferredVersion"]["groupVersion"] for g in api.request("GET", "/apis")[1]["groups"]),
    ]:
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        group = version.rpartition("/")[0]
        served |= {f"{group}/{row['name']}" for row in api.request("GET", root)[1]["resources"]}
    objects = generate(read_plan(deployer.file))
    named = (rights.needed(objects) | rights.helpful(objects)) - {rights.EDIT}
    assert {f"{right.group}/{right.resource}" for right in named} <= served


def test_an_administrator_is_told_what_else_is_missing(homelab: Any) -> None:
    """A node that is not there, an operator that would not follow, Secrets, a version: each with its fix."""
    spec = homelab.spec
    sound = looked(homelab)
    assert sound.ready
    assert reasons(sound, "rights") == [Reason.RIGHTS_ALL]
    assert reasons(sound, "nodes") == [Reason.NODES_FIT]
    assert reasons(sound, "operator") == [Reason.OPERATOR_FOREIGN]
    assert reasons(sound, "version") == [Reason.VERSION_SAME]
    assert reasons(sound, "gates") == [Reason.GATES_NONE]

    spec["pools"][0]["nodes"]["names"].append("k3s-gpu-9")
    spec["cluster"]["kubernetesVersion"] = "1.33"
    spec["monitoring"] = {"prometheusOperator": True}
    spec["gpuOperator"]["clusterPolicy"] = "gpu-cluster-policy"
    spec["queue"] = {
        "chart": CHART,
        "database": {"secretRef": {"name": "queue-database", "key": "url"}},
        "alerts": {"webhookSecretRef": {"name": "chat", "key": "url"}},
    }
    spec["tenants"] = [
        {
            "name": "vision",
            "namespace": "trial-vision",
            "pools": {"homelab": {"gpus": 1}},
            "jobs": {"secrets": ["hub"]},
        }
    ]
    api = homelab.kube.api
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpupool-system"}})
    chat = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "chat", "namespace": "gpupool-system"}}
    api.create({**chat, "stringData": {"address": "https://chat.example.com/hidden"}})

    faulty = looked(homelab)
    assert not faulty.ready
    assert "node k3s-gpu-9 is not in the cluster" in messages(faulty, Reason.NODE_UNFIT)
    assert '"1.36"' in messages(faulty, Reason.VERSION_OTHER)
    assert "monitoring.prometheusOperator" in messages(faulty, Reason.PROMETHEUS_MISSING)
    assert "gpuOperator.clusterPolicy: cluster-policy" in messages(faulty, Reason.OPERATOR_UNFIT)
    assert "kubectl create secret generic queue-database --namespace gpupool-system" in messages(
        faulty, Reason.SECRET_MISSING
    )
    assert "has no key url; it has address" in messages(faulty, Reason.SECRET_NO_KEY)
    assert "trial-vision/hub" in messages(faulty, Reason.JOB_SECRET_MISSING)
    assert reasons(faulty, "queue") == [Reason.IMAGE_UNPULLED]
    answer = gpupool("doctor", homelab.file, "--format", "json", folder=homelab.folder)
    assert answer.returncode == 1
    assert "hidden" not in answer.stdout
    rows = json.loads(answer.stdout)
    assert rows["ready"] is False
    assert {row["check"] for row in rows["results"]} == {"file", "context", *(check.name for check in CHECKS)}
    assert {row["state"] for row in rows["results"]} <= {
        "ok",
        "missing",
        "differs",
        "unknown",
        "will-be-installed",
    }


def test_the_owner_of_an_operator_is_told_what_to_set(homelab: Any) -> None:
    policy = hand_made_policy()
    policy["spec"]["daemonsets"] = {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}
    homelab.kube.apply(policy)
    homelab.spec["pools"][0]["taints"] = [{"key": "gpu", "effect": "NoSchedule"}]
    found = looked(homelab)
    assert reasons(found, "operator") == [Reason.OPERATOR_FOREIGN, Reason.OPERATOR_LACKS]
    assert "- key: gpu\n      operator: Exists\n" in messages(found, Reason.OPERATOR_LACKS)
    assert found.ready


def test_karpenters_gate_and_the_kinds_of_a_cluster_without_them(world: Any) -> None:
    """On EKS without charts of ours: Karpenter is another's, and its Deployment says which gates are on."""
    world.spec["metadata"]["name"] = "trial-eks"
    world.spec["cluster"] = {"platform": "eks", "name": "trial-eks", "region": "eu-west-1"}
    world.spec["gpuOperator"] = {"install": False}
    del world.spec["pools"][1]
    world.spec["karpenter"] = {"install": False, "nodeRole": "KarpenterNodeRole"}
    unseen = looked(world)
    assert reasons(unseen, "gates") == [Reason.KARPENTER_UNSEEN]
    assert Reason.KINDS_SERVED in reasons(unseen, "kinds")
    assert reasons(unseen, "operator") == [Reason.OPERATOR_UNFIT]

    labels = {"app.kubernetes.io/name": "karpenter"}
    container = {
        "name": "controller",
        "image": "karpenter",
        "env": [{"name": "FEATURE_GATES", "value": "NodeOverlay=false"}],
    }
    world.kube.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "karpenter", "namespace": "kube-system", "labels": labels},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
        }
    )
    try:
        off = looked(world)
        assert "NodeOverlay=true" in messages(off, Reason.GATE_OFF)
        assert not off.ready
    finally:
        world.kube.api.delete("apps/v1", "Deployment", "karpenter", "kube-system")


def test_kinds_that_a_cluster_lacks_are_told_apart(homelab: Any) -> None:
    """Served in another version, of no chart that is there, of one that comes, and of Kubernetes itself."""
    plan = read_plan(homelab.file)
    release = HelmRelease(
        "gpu-operator", "gpu-operator", "gpu-operator", "https://charts.example.com", "v1", {}
    )

    def of(*names: tuple[str, str]) -> Bundle:
        bodies = [
            {"apiVersion": version, "kind": kind, "metadata": {"name": "one"}} for version, kind in names
        ]
        return bundle(plan.environment, [*map(Manifest, bodies), release])

    wanted = of(
        ("karpenter.sh/v9", "NodePool"),
        ("karpenter.k8s.invalid/v1", "EC2NodeClass"),
        ("nvidia.invalid/v1", "ClusterPolicy"),
        ("batch/v9", "CronJob"),
        ("v1", "Namespace"),
    )
    target = NamedCluster(plan.environment, plan.cluster)
    inputs = DoctorInput(
        "trial-nodes", lambda _: None, target, plan=plan, bundle=wanted, api=homelab.kube.api
    )
    said = {row.subject: row for row in kinds.kinds(inputs)}
    assert {name: row.reason for name, row in said.items()} == {
        "NodePool": Reason.KIND_OTHER_VERSION,
        "EC2NodeClass": Reason.KIND_MISSING,
        "ClusterPolicy": Reason.KIND_COMES,
        "CronJob": Reason.KIND_TOO_OLD,
        "kinds": Reason.KINDS_SERVED,
    }
    assert "as karpenter.sh/v1" in said["NodePool"].message
    assert said["kinds"].message.startswith("1 of 5 kinds")
