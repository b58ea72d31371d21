"""What is printed passes the policies of every shipped environment: on every pool, for every kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

import pytest
import yaml

from gpupool.cli.snippet import Kind
from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.resolve import read_plan
from gpupool.environment.plan.tenants import MachineShare, memory_quantity
from gpupool.environment.spec.load import environment_names
from gpupool.findings import UsageError
from gpupool.generators import generate, rbac
from gpupool.generators.snippet.wish import SnippetRequest, wish
from gpupool.generators.snippet.workloads import KINDS, workload
from tests.admission import judge_of, said, without
from vapcheck.judging.judge import Judge

Object = dict[str, Any]
WAIT: Object = {"name": "wait", "image": "registry.example/argoexec:3.7"}
"""What Argo puts beside the container of each step."""
SCALER = {"cpu": "500m", "memory": "512Mi"}
"""Of the container `autoscaler` that KubeRay puts beside the head's, with the same image."""


def wishes(plan: Plan) -> Iterator[SnippetRequest]:
    """Each tenant's on each of its pools: one of every resource, and as many as a pod may get."""
    for tenant in plan.tenants:
        for name in tenant.grants:
            pool = plan.pool(name)
            mig = pool.sharing.mode == "mig"
            for resource, count in pool.slices_per_node.items():
                profile = resource.removeprefix("nvidia.com/mig-").replace(".me", "+me") if mig else None
                for slices in {1, count} if pool.sharing.mode in ("mig", "exclusive") else {1}:
                    yield wish(plan, name, slices, profile, tenant.name)


def pod(template: Object, wanted: SnippetRequest) -> Object:
    assert wanted.tenant is not None
    about = {"name": "pod", "namespace": wanted.tenant.namespace}
    metadata = {**template.get("metadata", {}), **about}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def judged(kind: str, made: Object, wanted: SnippetRequest) -> list[Object]:
    """The objects that admission sees: of kinds that are not Kubernetes' own, the pods that come of them."""
    spec = made.get("spec", {})
    match kind:
        case "raycluster":
            head = spec["headGroupSpec"]["template"]["spec"]
            assert spec["enableInTreeAutoscaling"]
            (main,) = head["containers"]
            autoscaler = {
                **main,
                "name": "autoscaler",
                "resources": dict.fromkeys(("requests", "limits"), SCALER),
            }
            workers = [group["template"] for group in spec["workerGroupSpecs"]]
            templates = [{"spec": {**head, "containers": [main, autoscaler]}}, *workers]
        case "sparkapplication":
            templates = [executor(spec["executor"])]
        case "pytorchjob":
            templates = [replica["template"] for replica in spec["pytorchReplicaSpecs"].values()]
        case "kubeflow":
            (step,) = spec["templates"]
            patch = yaml.safe_load(step["podSpecPatch"])
            (main,) = patch["containers"]
            patch["containers"] = [{**step["container"], **main}, _filled_in(wanted.plan, WAIT)]
            templates = [{"metadata": step.get("metadata", {}), "spec": patch}]
        case _:
            return [made]
    return [pod(template, wanted) for template in templates]


def _filled_in(plan: Plan, container: Object) -> Object:
    """The container with the requests that the tenants' LimitRange gives to one that states none."""
    bounds = next(made for made in generate(plan) if made.kind == "LimitRange")
    (limit,) = bounds.body["spec"]["limits"]
    return {**container, "resources": {"requests": dict(limit["defaultRequest"])}}


def executor(given: Object) -> Object:
    """The template as Spark fills it in: requests by its own settings."""
    template: Object = given["template"]
    if "memory" in given:
        (container,) = template["spec"]["containers"]
        mib = sum(int(given[name].removesuffix("m")) for name in ("memory", "memoryOverhead"))
        asked = {"cpu": given["coreRequest"], "memory": memory_quantity(mib)}
        container["resources"] = {**container["resources"], "requests": asked}
    return template


@pytest.fixture(scope="module", params=environment_names())
def judge(request: pytest.FixtureRequest) -> tuple[Plan, Judge]:
    plan = read_plan(request.param)
    return plan, judge_of(plan)


@pytest.mark.parametrize("kind", KINDS)
def test_policies_take_it(judge: tuple[Plan, Judge], kind: str) -> None:
    plan, by = judge
    for wanted in wishes(plan):
        made = workload(wanted, kind)
        for body in judged(kind, made, wanted):
            assert said(by, body) == [], (wanted.pool.name, wanted.resource, wanted.count)


@pytest.mark.parametrize("kind", KINDS)
def test_its_gpu_container_has_shared_memory_and_a_folder_to_write(kind: str) -> None:
    wanted = wish(read_plan("prod"), "training-h100", shm="8Gi")
    made = workload(wanted, kind)
    specs = [body["spec"] for body in judged(kind, made, wanted)]
    if kind in ("deployment", "job"):
        specs = [spec["template"]["spec"] for spec in specs]
    with_gpus = [
        spec for spec in specs if any("limits" in c.get("resources", {}) for c in spec["containers"])
    ]
    gpu_pods = [spec for spec in with_gpus if "volumes" in spec]
    assert gpu_pods
    for spec in gpu_pods:
        container = spec["containers"][0]
        assert [volume["emptyDir"].get("sizeLimit") for volume in spec["volumes"]] == ["8Gi", "20Gi"]
        paths = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert paths == {"shm": "/dev/shm", "scratch": "/scratch"}
        assert {"name": "HOME", "value": "/scratch"} in container["env"]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"shm": "9000Gi"}, r"--shm-size 9000Gi: the pod has .*[GM]i of memory"),
        ({"scratch": "9Ti"}, r"--scratch-size 9Ti: the pod has .*Gi of its node's disk"),
        ({"shm": "8g"}, r"--shm-size 8g: write a size such as 512Mi or 8Gi"),
        ({"scratch": "0"}, r"--scratch-size 0: write a size"),
    ],
)
def test_sizes_are_of_what_the_pod_has(sizes: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        wish(read_plan("prod"), "training-h100", **sizes)


@pytest.mark.parametrize("kind", KINDS)
def test_without_its_tolerations_it_is_refused(kind: str) -> None:
    plan = read_plan("prod")
    wanted, by = wish(plan, "training-h100"), judge_of(plan)
    taken_off = [without(body, "tolerations") for body in judged(kind, workload(wanted, kind), wanted)]
    denials = [said(by, body) for body in taken_off]
    assert any(line.startswith("deny gpu-pods-tolerate-their-pool") for lines in denials for line in lines)


def test_a_slice_that_has_no_room_for_argos_container_is_no_step_of_a_workflow() -> None:
    plan = read_plan("local")
    pool = plan.pool("notebooks")
    crowded = replace(
        pool, machines=tuple(replace(one, size=MachineShare(900, 1900)) for one in pool.machines)
    )
    with pytest.raises(UsageError, match=r"--slices 1: pool notebooks .* Argo's sidecar .* 100m and 256Mi"):
        workload(replace(wish(plan, "notebooks"), pool=crowded), "kubeflow")


@pytest.mark.parametrize("kind", KINDS)
def test_tenants_may_do_with_it_what_they_may_with_jobs(kind: str) -> None:
    plan = read_plan("prod")
    made = workload(wish(plan, "training-h100"), kind)
    group, _, _ = made["apiVersion"].rpartition("/")
    rules = next(one.body["rules"] for one in rbac.generate(plan) if one.name == rbac.TENANT_ROLE)

    def verbs(group: str, resource: str) -> set[str]:
        fit = [rule for rule in rules if group in rule["apiGroups"] and resource in rule["resources"]]
        return {verb for rule in fit for verb in rule["verbs"]}

    assert verbs(group, f"{made['kind'].lower()}s") == verbs("batch", "jobs") != set()


def test_the_command_line_lists_every_kind() -> None:
    assert get_args(Kind) == tuple(KINDS)


def test_a_pool_for_jobs_has_nothing_else() -> None:
    plan = read_plan("prod")
    wanted = wish(plan, "notebooks")
    wanted = replace(wanted, pool=replace(wanted.pool, jobs_only=True))
    job = workload(wanted, "job")["spec"]
    assert job["template"]["spec"]["activeDeadlineSeconds"] == job["activeDeadlineSeconds"] > 0
    for other in ("deployment", "pod"):
        with pytest.raises(UsageError, match=r"is for Jobs only .*use --for job"):
            workload(wanted, other)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("gone",), "no pool 'gone' in environment prod; pools: notebooks, research-a100, "),
        (("notebooks", 2), "--slices 2: a pod on pool notebooks gets at most 1 nvidia.com/gpu"),
        (("training-h100", 9), "gets at most 8 nvidia.com/gpu; the largest node has no more"),
        (("inference-h100",), "has several profiles; add --profile with one of: 3g.40gb, 2g.20gb"),
        (("inference-h100", 1, "1g.10gb"), "no profile 1g.10gb; add --profile"),
        (("notebooks", 1, "1g.10gb"), "pool notebooks is not partitioned; remove --profile"),
        (("training-h100", 1, None, "search"), "no such tenant with pool training-h100; tenants: vision, "),
    ],
)
def test_what_can_not_be_is_said_with_what_can(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("(", r"\(")):
        wish(read_plan("prod"), *arguments)
