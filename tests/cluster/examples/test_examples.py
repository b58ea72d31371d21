"""Every example runs on the local cluster, prints what its page shows, and does what it is there to show."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from gpupool.environment.plan.resolve import read_plan
from gpupool.generators.snippet.wish import wish
from gpupool.generators.snippet.workloads import workload
from gpupool.queue.kubernetes.job_manifest import GRACE_S
from tests.cluster.examples.conftest import ROOT, Examples, Object
from tests.cluster.kube import Kube


def steps(printed: str) -> list[int]:
    return [int(number) for number in re.findall(r"^step (\d+)", printed, re.MULTILINE)]


def admitted(kube: Kube, namespace: str, template: Object) -> None:
    """The API server and its policies accept a pod of the template, which is not kept. Raises ApiError."""
    pod = {"apiVersion": "v1", "kind": "Pod", **template}
    pod["metadata"] = {**template.get("metadata", {}), "generateName": "probe-"}
    kube.api.request("POST", f"/api/v1/namespaces/{namespace}/pods", {"dryRun": "All"}, pod)


def test_training_goes_on_from_its_checkpoint(examples: Examples) -> None:
    printed = examples.shown("training-checkpoint")
    assert steps(printed) == [*range(1, 26), *range(21, 41)]


def test_a_job_on_spot_loses_no_step(examples: Examples) -> None:
    assert steps(examples.shown("spot-preemption")) == [*range(1, 101)]


def test_what_is_borrowed_is_given_back_without_losing_a_step(examples: Examples) -> None:
    printed = examples.shown("borrowing")
    borrowed, seconds, ended = (
        int(re.search(pattern, printed)[1])  # type: ignore[index]
        for pattern in (r"run, (\d+) of", r"after (\d+) s", r"succeeded, (\d+) gave")
    )
    assert (borrowed, ended) == (3, 3), "one GPU is free, and serving is granted four"
    plan = read_plan(str(ROOT / "environments" / "local.yaml"))
    assert seconds <= plan.queue.minimum_runtime_s + GRACE_S + 10


def test_a_job_whose_pod_is_killed_goes_on_from_its_last_checkpoint(examples: Examples) -> None:
    printed = examples.shown("chaos")
    first, _, second = printed.partition("attempt 2 ")
    killed, saved = steps(first)[-1], steps(second)[0] - 1
    assert steps(printed) == [*range(1, killed + 1), *range(saved + 1, 81)]
    assert saved % 10 == 0 <= killed - saved <= 10


def test_the_client_does_what_its_tour_shows(examples: Examples) -> None:
    examples.shown("sdk")


def test_every_request_of_a_batch_is_answered(examples: Examples) -> None:
    examples.shown("batch-inference")


def test_a_hundred_mixed_jobs_succeed_and_are_measured(examples: Examples) -> None:
    rows = re.findall(r"^(.{32}) +([\d.]+) +([\d.]+) +([\d.]+)$", examples.shown("load-test"), re.MULTILINE)
    assert len(rows) == 5
    assert all(float(p50) <= float(p95) <= float(p99) for _, p50, p95, p99 in rows)


def test_two_tenants_hold_what_they_are_granted(examples: Examples) -> None:
    examples.shown("submit-100")


def test_environments_of_other_clouds_are_judged(examples: Examples) -> None:
    examples.shown("clouds")


def test_a_ray_cluster_is_taken_and_so_are_its_workers(examples: Examples, operators: Kube) -> None:
    examples.shown("ray-cluster")
    cluster = operators.get("ray.io/v1", "RayCluster", "training", "team-vision")
    admitted(operators, "team-vision", cluster["spec"]["workerGroupSpecs"][0]["template"])
    assert cluster["spec"]["enableInTreeAutoscaling"] is True
    head = cluster["spec"]["headGroupSpec"]["template"]
    (main,) = head["spec"]["containers"]
    asked = {"cpu": "500m", "memory": "512Mi"}
    scaler = {**main, "name": "autoscaler", "resources": {"requests": asked, "limits": asked}}
    admitted(operators, "team-vision", {**head, "spec": {"containers": [main, scaler]}})


def test_a_spark_application_is_taken_and_so_are_its_executors(examples: Examples, operators: Kube) -> None:
    examples.shown("spark-rapids")
    made = operators.get("sparkoperator.k8s.io/v1beta2", "SparkApplication", "rapids", "team-vision")
    admitted(operators, "team-vision", made["spec"]["executor"]["template"])


def test_a_pipelines_step_asks_for_what_its_pod_may(examples: Examples) -> None:
    """The page shows where the compiled step runs; the API server accepts its pod, with the same fields."""
    printed = examples.shown("kubeflow-step")
    assert "pod/train-step created" in printed
    compiled, _ = yaml.safe_load_all((ROOT / "build" / "train.yaml").read_text(encoding="utf-8"))
    resources = compiled["deploymentSpec"]["executors"]["exec-train"]["container"]["resources"]
    made = workload(wish(read_plan("local"), "training", None, None, "vision"), "kubeflow")
    asked = yaml.safe_load(made["spec"]["templates"][0]["podSpecPatch"])["containers"][0]["resources"]
    assert resources["resourceCpuRequest"] == asked["requests"]["cpu"]
    assert resources["resourceMemoryRequest"] == asked["requests"]["memory"]
    assert asked["limits"] == {
        resources["accelerator"]["resourceType"]: resources["accelerator"]["resourceCount"]
    }


def test_the_index_names_every_example_and_each_is_run() -> None:
    there = {path.parent.name for path in (ROOT / "examples").glob("*/README.md")}
    index = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| \[([\w-]+)\]", index, re.MULTILINE)) == there
    tests = Path(__file__).read_text(encoding="utf-8")
    assert set(re.findall(r'examples\.shown\("([\w-]+)"\)', tests)) == there
