"""What the launcher's account can't do: the API server refuses each attempt, by the rule that it names.

The environment is applied as by `gpupool up`. A Job of the queue with its pods, and things of a tenant, are
there. That the launcher can do all that it must is what the other tests of this folder say.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.pods import LAUNCHER_USER, RECORDED_FINALIZER
from gpupool.environment.plan.resolve import read_plan
from gpupool.live.cluster.kube_api import JSON, MERGE, STRATEGIC
from gpupool.queue.kubernetes.job_manifest import name_of, service
from tests.cluster.kube import Kube
from tests.cluster.policies.server import Answer, Server
from tests.cluster.queue.conftest import ENVIRONMENT
from tests.cluster.queue.served import a_job, apply

Object = dict[str, Any]
TENANT, OTHER = "queue-vision", "queue-speech"
RBAC = "cannot"
JOBS, SERVICES = "'queue-jobs-are-as-made'", "'queue-services-are-as-made'"
FOREGROUND = {"propagationPolicy": "Foreground"}
RUNNING = name_of("0190b0f0-0000-7000-8000-00000000a001", 1)
"""The Job of the queue that is there."""
THEIRS = "web"
"""What the tenant has: a pod, a Job, a Service and a Secret of this name."""


@dataclass(frozen=True)
class Cluster:
    plan: Plan
    server: Server
    kube: Kube
    pod: str
    """A pod of the queue's Job."""

    def ask(self, method: str, path: str, body: Object | None, content: str = JSON) -> Answer:
        return self.server.send(method, path, body, content, user=LAUNCHER_USER)

    def create(self, body: Object) -> Answer:
        root = "/apis/batch/v1" if body["kind"] == "Job" else "/api/v1"
        path = f"{root}/namespaces/{body['metadata']['namespace']}/{body['kind'].lower()}s"
        return self.ask("POST", path, body)


@pytest.fixture(scope="module")
def cluster(kube: Kube, control_plane: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    kube.wipe()
    spec = yaml.safe_load(ENVIRONMENT.read_text(encoding="utf-8"))
    spec["tenants"][0]["jobs"] = {"secrets": ["keys"], "claims": ["data"]}
    file = tmp_path_factory.mktemp("compromised") / ENVIRONMENT.name
    file.write_text(yaml.safe_dump(spec), encoding="utf-8")
    plan = read_plan(str(file))
    apply(kube, plan)
    with contextlib.ExitStack() as stack:
        stack.enter_context(kube.still("karpenter"))  # no node is needed
        for body in theirs():
            kube.api.create(body)
        server = Server(control_plane.kubeconfig)
        answer = server.send(
            "POST",
            f"/apis/batch/v1/namespaces/{TENANT}/jobs",
            a_job(plan, number=1),
            user=LAUNCHER_USER,
            dry_run=False,
        )
        assert answer.status == 201, answer.message
        pods = kube.wait("the queue's Job has its pods", lambda: kube.pods(TENANT, f"job-name={RUNNING}"))
        yield Cluster(plan, server, kube, pods[0]["metadata"]["name"])
    kube.wipe()


def theirs() -> Iterator[Object]:
    about = {"name": THEIRS, "namespace": TENANT, "labels": {"app": THEIRS}}
    safe = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    container = {"name": "main", "image": "busybox:1.37", "securityContext": safe}
    user = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    pod = {"restartPolicy": "Never", "securityContext": user, "containers": [container]}
    yield {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": pod}
    yield {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": about,
        "spec": {"suspend": True, "template": {"spec": pod}},
    }
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": about,
        "spec": {"selector": {"app": THEIRS}, "ports": [{"port": 80}]},
    }
    yield {"apiVersion": "v1", "kind": "Secret", "metadata": about, "stringData": {"token": "x"}}
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": about}


CREATED: dict[str, tuple[Callable[[Object, Object, Object], Any], str]] = {
    # Of a Job that is as made: the Job, its pod and its container.
    "a service account": (lambda j, p, c: p.update(serviceAccountName=THEIRS), JOBS),
    "a service account by its old name": (lambda j, p, c: p.update(serviceAccount=THEIRS), JOBS),
    "a token": (lambda j, p, c: p.update(automountServiceAccountToken=True), JOBS),
    "a token by a volume": (
        lambda j, p, c: p["volumes"].append(
            {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}
        ),
        JOBS,
    ),
    "a Secret by a variable": (
        lambda j, p, c: c["env"].append(
            {"name": "T", "valueFrom": {"secretKeyRef": {"name": THEIRS, "key": "token"}}}
        ),
        JOBS,
    ),
    "a Secret by all its variables": (
        lambda j, p, c: c.update(envFrom=[{"secretRef": {"name": THEIRS}}]),
        JOBS,
    ),
    "a Secret that it has written into the annotation": (
        lambda j, p, c: (
            c.update(envFrom=[{"secretRef": {"name": THEIRS}}]),
            j["metadata"]["annotations"].update({"gpupool.dev/secrets": THEIRS}),
        ),
        JOBS,
    ),
    "a Secret by a volume": (
        lambda j, p, c: p["volumes"].append({"name": "t", "secret": {"secretName": THEIRS}}),
        JOBS,
    ),
    "a Secret by a projected volume": (
        lambda j, p, c: p["volumes"].append(
            {"name": "t", "projected": {"sources": [{"secret": {"name": THEIRS}}]}}
        ),
        JOBS,
    ),
    "a Secret for its image": (lambda j, p, c: p.update(imagePullSecrets=[{"name": THEIRS}]), JOBS),
    "a ConfigMap": (lambda j, p, c: c.update(envFrom=[{"configMapRef": {"name": THEIRS}}]), JOBS),
    "a claim": (
        lambda j, p, c: p["volumes"].append(
            {"name": "claim-0", "persistentVolumeClaim": {"claimName": THEIRS}}
        ),
        JOBS,
    ),
    "a path of the node": (
        lambda j, p, c: p["volumes"].append({"name": "t", "hostPath": {"path": "/"}}),
        JOBS,
    ),
    "shared memory without a limit": (lambda j, p, c: p["volumes"][0]["emptyDir"].pop("sizeLimit"), JOBS),
    "a scratch folder in memory": (lambda j, p, c: p["volumes"][1]["emptyDir"].update(medium="Memory"), JOBS),
    "a volume without a limit": (lambda j, p, c: p["volumes"].append({"name": "t", "emptyDir": {}}), JOBS),
    "no limit of local disk": (lambda j, p, c: c["resources"]["limits"].pop("ephemeral-storage"), JOBS),
    "a second container": (lambda j, p, c: p["containers"].append({**c, "name": "second"}), JOBS),
    "an init container": (lambda j, p, c: p.update(initContainers=[{**c, "name": "first"}]), JOBS),
    "the node's network": (lambda j, p, c: p.update(hostNetwork=True), JOBS),
    "the node's processes": (lambda j, p, c: p.update(hostPID=True), JOBS),
    "a port of the node": (lambda j, p, c: c.update(ports=[{"containerPort": 80, "hostPort": 80}]), JOBS),
    "root": (lambda j, p, c: p["securityContext"].update(runAsUser=0, runAsNonRoot=False), JOBS),
    "root for its container": (lambda j, p, c: c["securityContext"].update(runAsUser=0), JOBS),
    "privileges": (
        lambda j, p, c: c["securityContext"].update(privileged=True, allowPrivilegeEscalation=True),
        JOBS,
    ),
    "capabilities": (lambda j, p, c: c["securityContext"]["capabilities"].update(add=["NET_RAW"]), JOBS),
    "a node": (lambda j, p, c: p.update(nodeName="node-1"), JOBS),
    "a host": (lambda j, p, c: p["nodeSelector"].update({"kubernetes.io/hostname": "node-1"}), JOBS),
    "toleration of everything": (lambda j, p, c: p.update(tolerations=[{"operator": "Exists"}]), JOBS),
    "toleration of another pool": (
        lambda j, p, c: p["tolerations"].append({"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}),
        JOBS,
    ),
    "pods that restart": (lambda j, p, c: p.update(restartPolicy="OnFailure"), "restartPolicy"),
    "the subdomain of another": (lambda j, p, c: p.update(subdomain=THEIRS), JOBS),
    "a host name": (lambda j, p, c: p.update(hostname=THEIRS), JOBS),
    "another scheduler": (lambda j, p, c: p.update(schedulerName="own"), JOBS),
    "a label of a tenant's Service": (
        lambda j, p, c: j["spec"]["template"]["metadata"]["labels"].update(app=THEIRS),
        JOBS,
    ),
    "an annotation that other controllers act on": (
        lambda j, p, c: j["spec"]["template"]["metadata"]["annotations"].update(
            {"iam.amazonaws.com/role": "admin"}
        ),
        JOBS,
    ),
    "an attempt of another job": (
        lambda j, p, c: j["spec"]["template"]["metadata"]["labels"].update({"gpupool.dev/attempt": "2"}),
        JOBS,
    ),
    "a name of its own": (lambda j, p, c: j["metadata"].update(name="train"), JOBS),
    "no finalizer": (lambda j, p, c: j["metadata"].update(finalizers=[]), JOBS),
    "an owner": (
        lambda j, p, c: j["metadata"].update(
            ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": THEIRS, "uid": "u"}]
        ),
        JOBS,
    ),
    "retries": (lambda j, p, c: j["spec"].update(backoffLimit=1), JOBS),
    "more pods at once": (lambda j, p, c: j["spec"].update(parallelism=7), JOBS),
    "a namespace of no tenant": (lambda j, p, c: j["metadata"].update(namespace="gpupool-system"), RBAC),
    "the default namespace": (lambda j, p, c: j["metadata"].update(namespace="default"), RBAC),
}
"""What a new Job has beside what it should, and what refuses it."""


@pytest.mark.parametrize("attempt", CREATED)
def test_a_job_can_not_have(cluster: Cluster, attempt: str) -> None:
    change, by = CREATED[attempt]
    body = a_job(cluster.plan)
    spec = body["spec"]["template"]["spec"]
    change(body, spec, spec["containers"][0])
    _refused(cluster.create(body), by)


def test_a_job_is_created_as_it_is_made(cluster: Cluster) -> None:
    volumes = [{"claim": "data", "path": "/data"}]
    of_list = a_job(cluster.plan, env_from_secrets=["keys"], image_pull_secrets=["keys"], volumes=volumes)
    any_secret = a_job(cluster.plan, "speech", env_from_secrets=["whichever"])
    for body in (a_job(cluster.plan), of_list, any_secret):
        answer = cluster.create(body)
        assert answer.status == 201, answer.message


CHANGED = {
    row["name"]: row
    for row in yaml.safe_load(Path(__file__).with_name("compromised_launcher.yaml").read_text())
}
GROUPS = {
    "jobs": "/apis/batch/v1",
    "cronjobs": "/apis/batch/v1",
    "leases": "/apis/coordination.k8s.io/v1",
    "rolebindings": "/apis/rbac.authorization.k8s.io/v1",
    "deployments": "/apis/apps/v1",
    "networkpolicies": "/apis/networking.k8s.io/v1",
    "endpointslices": "/apis/discovery.k8s.io/v1",
}


@pytest.mark.parametrize("attempt", CHANGED)
def test_it_can_not_change(cluster: Cluster, attempt: str) -> None:
    row = CHANGED[attempt]
    path = row["path"].replace("POD", cluster.pod).replace("JOB", RUNNING)
    root = GROUPS.get(path.partition("/")[0], "/api/v1")
    patch = STRATEGIC if row.get("patch") == "strategic" else MERGE
    content = patch if row["verb"] == "PATCH" else JSON
    answer = cluster.ask(row["verb"], f"{root}/namespaces/{TENANT}/{path}", row.get("body"), content)
    _refused(answer, "cannot" if row["by"] == "rbac" else row["by"])


SERVED: dict[str, tuple[Callable[[Object], Any], str]] = {
    "the selector of a tenant's pods": (lambda s: s["spec"].update(selector={"app": THEIRS}), SERVICES),
    "no selector": (lambda s: s["spec"].pop("selector"), SERVICES),
    "the selector of all jobs": (lambda s: s["spec"]["selector"].pop("gpupool.dev/attempt"), SERVICES),
    "another name": (lambda s: s["metadata"].update(name="database"), SERVICES),
    "no owner": (lambda s: s["metadata"].pop("ownerReferences"), SERVICES),
    "an address": (lambda s: s["spec"].update(clusterIP="", ports=[{"port": 80}]), SERVICES),
    "an address from outside": (lambda s: s["spec"].update(externalIPs=["192.0.2.1"]), "services-"),
    "a name from outside": (
        lambda s: s.update(spec={"type": "ExternalName", "externalName": "a.example"}),
        SERVICES,
    ),
    "a port of each node": (
        lambda s: s["spec"].update(type="NodePort", clusterIP="", ports=[{"port": 80}]), "services-"
    ),
    "a load balancer": (
        lambda s: s["spec"].update(type="LoadBalancer", clusterIP="", ports=[{"port": 80}]), "services-"
    ),
}  # fmt: skip


@pytest.mark.parametrize("attempt", SERVED)
def test_a_service_can_not_have(cluster: Cluster, attempt: str) -> None:
    change, by = SERVED[attempt]
    body = _service(cluster)
    change(body)
    _refused(cluster.create(body), by)


def test_what_the_launcher_does_is_taken(cluster: Cluster) -> None:
    where = f"/apis/batch/v1/namespaces/{TENANT}/jobs/{RUNNING}"
    released = {"metadata": {"$deleteFromPrimitiveList/finalizers": [RECORDED_FINALIZER]}}
    verdict = {"metadata": {"annotations": {"gpupool.dev/verdict": "{}"}}}
    answers = (
        cluster.create(_service(cluster)),
        cluster.ask("PATCH", where, verdict, MERGE),
        cluster.ask("PATCH", where, released, STRATEGIC),
        cluster.ask("PATCH", f"/api/v1/namespaces/{TENANT}/pods/{cluster.pod}", released, STRATEGIC),
        cluster.ask(
            "DELETE", where, {"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"], **FOREGROUND}
        ),
    )
    assert [answer.message for answer in answers] == [""] * len(answers)


def _service(cluster: Cluster) -> Object:
    found = service({**a_job(cluster.plan), "metadata": {**a_job(cluster.plan)["metadata"], "uid": "u"}})
    assert found is not None
    return found


def _refused(answer: Answer, by: str) -> None:
    assert answer.status in (403, 422), (answer.status, answer.message)
    assert by in answer.message
