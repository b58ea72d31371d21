"""What the policies of an environment say of a job before it is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from gpupool.cli.queue.serve import _objects
from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.pods import LAUNCHER_USER
from gpupool.environment.plan.resolve import read_plan
from gpupool.environment.spec.load import environment_names
from gpupool.findings import GpupoolError
from gpupool.queue.api.accept import accept
from gpupool.queue.api.requests import JobRequest
from gpupool.queue.domain.current import Current, current
from gpupool.queue.kubernetes import admission, job_manifest
from gpupool.queue.kubernetes.admission import JOB_CONTROLLER, Admission, Refusal, Verdicts
from gpupool.queue.records import Job
from tests.queue.api.served import local_plan
from vapcheck import Document, from_bodies
from vapcheck.policy.compiled_policy import Compiler
from vapcheck.policy.model import ANNOTATION

PINNED = "image busybox is not pinned; name a version or a digest"


def job(present: Current, tenant: str = "vision", **fields: Any) -> Job:
    body = JobRequest(**{"container_image": "registry.example/train:1"} | fields)
    return accept(present, present.tenants[tenant], None, "ada", body, datetime.now(UTC))[0]


def refusals(verdicts: Verdicts | None, present: Current, made: Job) -> list[Refusal]:
    assert verdicts is not None
    return [refusal for offer in made.offers for refusal in verdicts.refusals(made, offer, present)]


@pytest.fixture(scope="module")
def present() -> Current:
    return current(local_plan())


@pytest.fixture(scope="module")
def verdicts(present: Current) -> Verdicts:
    return Verdicts(_objects(present.plan), Compiler(), "1.36")


def own(expression: str, resource: str, group: str = "", message: str = "no") -> list[Document]:
    """A policy of somebody's own."""
    rule = {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}
    about = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "own"}}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": expression, "message": message}],
    }
    binding = {"policyName": "own", "validationActions": ["Deny"]}
    return from_bodies(
        [
            about | {"kind": "ValidatingAdmissionPolicy", "spec": spec},
            about | {"kind": "ValidatingAdmissionPolicyBinding", "spec": binding},
        ],
        "own",
    )


@pytest.mark.parametrize("name", environment_names())
def test_what_the_queue_makes_of_a_job_is_taken_on_every_pool(name: str) -> None:
    plan = read_plan(name)
    present = current(plan)
    verdicts = Verdicts(_objects(plan), Compiler(), "1.36")
    image = f"{(plan.policies.limits.registries or ('registry.example',))[0]}/train:1"
    seen = 0
    for tenant in plan.tenants:
        for pool in tenant.grants:
            made = job(present, tenant.name, container_image=image, gpu_pool_requested=pool)
            assert refusals(verdicts, present, made) == []
            assert refusals(verdicts, present, replace(made, isolation="exclusive")) == []
            seen += 1
    assert seen


def test_a_job_over_several_nodes_is_taken(present: Current, verdicts: Verdicts) -> None:
    made = job(present, gpu_pool_requested="training", gpu_count=4)
    (offer,) = made.offers
    assert refusals(verdicts, present, replace(made, gpu_count=8, offers=(offer._replace(units=8),))) == []


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"container_image": "busybox"}, Refusal("pin-images", PINNED, "container_image")),
        (
            {"env": {"NVIDIA_VISIBLE_DEVICES": "all"}},
            Refusal(
                "gpus-are-requested",
                "the pod sets NVIDIA_VISIBLE_DEVICES, by which the container runtime hands out GPUs; ask for "
                "them under resources.limits",
                "env",
            ),
        ),
    ],
)
def test_a_refusal_names_the_policy_and_the_field(
    present: Current, verdicts: Verdicts, fields: dict[str, Any], expected: Refusal
) -> None:
    for _ in range(2):  # the second answer is remembered
        assert refusals(verdicts, present, job(present, **fields)) == [expected]


def test_a_policy_that_only_warns_refuses_nothing(present: Current) -> None:
    policies = replace(present.plan.policies, overrides={"pin-images": "warn"})
    other = current(replace(present.plan, policies=policies))
    verdicts = Verdicts(_objects(other.plan), Compiler(), "1.36")
    assert refusals(verdicts, other, job(other, container_image="busybox")) == []


@pytest.mark.parametrize(
    ("resource", "group", "expression"),
    [
        ("jobs", "batch", f"request.userInfo.username == '{LAUNCHER_USER}'"),
        ("pods", "", f"request.userInfo.username == '{JOB_CONTROLLER}'"),
        ("pods", "", "'system:serviceaccounts:kube-system' in request.userInfo.groups"),
        ("pods", "", "object.metadata.ownerReferences.exists(o, o.kind == 'Job' && o.controller)"),
        ("pods", "", "object.metadata.labels['job-name'] == object.metadata.ownerReferences[0].name"),
        ("pods", "", "namespaceObject.metadata.labels['gpupool.dev/tenant'] == 'vision'"),
        ("pods", "", "object.spec.priority >= 0"),
        ("pods", "", "object.spec.containers[0].command == ['train']"),
    ],
)
def test_objects_are_judged_as_the_api_server_sees_them(
    present: Current, resource: str, group: str, expression: str
) -> None:
    documents = _objects(present.plan)
    made = job(present, container_command=["train"])
    for wrong, text in enumerate((expression, f"!({expression})")):
        found = Verdicts([*documents, *own(text, resource, group)], Compiler(), "1.36")
        assert len(refusals(found, present, made)) == wrong, text


def test_the_place_of_a_refusal_names_the_field(present: Current) -> None:
    policy = own("object.spec.containers.all(c, c.command[0] != 'rm')", "pods", message="no rm")
    found = Verdicts([*_objects(present.plan), *policy], Compiler(), "1.36")
    (refusal,) = refusals(found, present, job(present, container_command=["rm"]))
    assert (refusal.policy, refusal.message, refusal.field) == ("own", "no rm", "container_command")
    assert refusals(found, present, job(present, container_command=["ls"])) == []


def test_what_can_not_be_evaluated_here_is_left_to_the_cluster(present: Current) -> None:
    found = Verdicts(
        [*_objects(present.plan), *own("object.spec.volumes[9].name == ''", "pods")], Compiler(), "1.36"
    )
    assert refusals(found, present, job(present)) == []


def test_jobs_that_are_alike_to_the_policies_are_judged_once(present: Current, verdicts: Verdicts) -> None:
    def judged() -> int:
        return verdicts._remembered.cache_info().misses

    refusals(verdicts, present, job(present))
    before = judged()
    for number in range(20):
        refusals(verdicts, present, job(present, container_command=[str(number)], job_name=f"a{number}"))
    assert judged() == before
    refusals(verdicts, present, job(present, env={"A": "b"}))
    assert judged() == before + 1, "only by the policies that read variables"
    refusals(verdicts, present, job(present, container_image="registry.example/train:2"))
    assert judged() == before + 3


def test_a_long_manifest_is_not_remembered(present: Current, verdicts: Verdicts) -> None:
    before = verdicts._remembered.cache_info()
    made = job(present, env={"A": "b" * admission.LONGEST}, container_image="registry.example/long:1")
    refusals(verdicts, present, made)
    assert verdicts._remembered.cache_info().misses == before.misses + 1


def test_another_plan_has_other_verdicts(present: Current) -> None:
    overridden = replace(present.plan.policies, overrides={"pin-images": "warn"})
    relaxed = current(replace(present.plan, policies=overridden))
    read: list[Plan] = []

    def objects(plan: Plan) -> Sequence[Document]:
        read.append(plan)
        return _objects(plan)

    async def run() -> None:
        judge = Admission(objects)
        for plan, count in ((present, 1), (relaxed, 0), (present, 1)):
            for verdicts in await asyncio.gather(*(judge.verdicts(plan) for _ in range(3))):
                assert len(refusals(verdicts, plan, job(plan, container_image="busybox"))) == count

    asyncio.run(run())
    assert read == [present.plan, relaxed.plan, present.plan]


def test_policies_that_can_not_be_read_change_nothing(present: Current) -> None:
    async def run() -> None:
        broken = [True]

        def objects(plan: Plan) -> Sequence[Document]:
            if broken:
                raise GpupoolError("policies/own.yaml: not YAML")
            return _objects(plan)

        judge = Admission(objects)
        assert await judge.verdicts(present) is None
        broken.clear()
        again = current(present.plan)
        known = await judge.verdicts(again)
        assert known is not None
        broken.append(True)
        assert await judge.verdicts(present) is known

    asyncio.run(run())


def test_policies_are_read_as_the_clusters_minor_reads_them(present: Current) -> None:
    """What a server refuses is not in force there; `up` and `policy check` say so."""
    documents = [*_objects(present.plan), *own("semver('1.0.0').major() == 2", "pods")]
    for kubernetes, count in (("1.33", 0), ("1.34", 1)):
        found = Verdicts(documents, Compiler(), kubernetes)
        assert len(refusals(found, present, job(present))) == count


def test_a_policy_names_the_field_that_it_judges(present: Current, verdicts: Verdicts) -> None:
    made = job(present, container_image="busybox", env={"NVIDIA_VISIBLE_DEVICES": "all"})
    fields = {refusal.policy: refusal.field for refusal in refusals(verdicts, present, made)}
    assert fields == {"pin-images": "container_image", "gpus-are-requested": "env"}


def test_shipped_policies_name_fields_that_there_are(present: Current) -> None:
    bodies = [document.body for document in _objects(present.plan)]
    notes = [body["metadata"].get("annotations") or {} for body in bodies]
    named = {
        note[ANNOTATION + admission.JOB_FIELD] for note in notes if ANNOTATION + admission.JOB_FIELD in note
    }
    assert named == {"container_image", "env"} <= set(job_manifest.FROM_REQUEST.values())
