"""The policies of every shipped environment take what the launcher creates, and the same from no tenant."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.environment.plan.model import Plan, Pool
from gpupool.environment.plan.pods import LAUNCHER_USER
from gpupool.environment.plan.resolve import read_plan
from gpupool.environment.plan.tenants import Tenant
from gpupool.environment.spec.load import environment_names
from gpupool.queue.kubernetes.job_manifest import manifest, service
from gpupool.queue.records import Job, JobState, Level
from tests.admission import ANYBODY, JOB_CONTROLLER, judge_of, said
from tests.queue.store.samples import NOW
from vapcheck.judging.request import User

Object = dict[str, Any]
DATABASE = "0190b0f0-0000-4000-8000-0000000000db"
LAUNCHER = User(LAUNCHER_USER, ("system:authenticated",))


def job(plan: Plan, tenant: Tenant, pool: Pool, resource: str, **given: Any) -> Job:
    registries = plan.policies.limits.registries
    image = f"{registries[0] if registries else 'registry.example'}/train:1"
    allowed = [p.name for p in plan.priorities].index(tenant.max_priority or "")
    level = Level[plan.priorities[allowed].level.upper()]
    fields: Object = {
        "id": "0190b0f0-0000-7000-8000-000000000001",
        "tenant": tenant.name,
        "project": None,
        "user": "ada",
        "name": "train",
        "state": JobState.SCHEDULED,
        "version": 1,
        "attempt": 2,
        "failures": 1,
        "disruptions": 0,
        "retries": 2,
        "priority": plan.priorities[allowed].name,
        "level": level,
        "isolation": "shared",
        "gpu_count": 1,
        "preemptible": True,
        "preempts": False,
        "timeout_s": 3600,
        "budget_limit_micro": None,
        "offers": (),
        "request": {"container_image": image, "container_command": ["train"], "env": {"EPOCHS": "3"}},
        "plan_hash": "sha256:1",
        "enqueued_at": NOW,
        "pool": pool.name,
        "resource": resource,
        "capacity_type": pool.capacities[0].type if pool.capacities else None,
    }
    return Job(**{**fields, **given})


def jobs(plan: Plan) -> Iterator[tuple[str, Object]]:
    """Every shape of attempt on every pool that a tenant is granted."""
    for tenant in plan.tenants:
        for name in tenant.grants:
            pool = plan.pool(name)
            for resource, count in pool.slices_per_node.items():
                shapes: dict[str, Object] = {
                    "shared": {},
                    "exclusive": {"isolation": "exclusive", "preemptible": False},
                }
                if pool.sharing.mode == "exclusive":
                    shapes["all"] = {"gpu_count": count}
                    shapes["gang"] = {"gpu_count": 2 * count, "placement": ((0, count), (1, count))}
                if name in tenant.up_to:
                    shapes["borrowed"] = {"borrowed": True}
                for side in pool.capacities[1:]:
                    shapes[side.type] = {"capacity_type": side.type}
                for shape, given in shapes.items():
                    made = manifest(
                        job(plan, tenant, pool, resource, **given),
                        plan,
                        tenant,
                        ["node-a"],
                        database=DATABASE,
                    )
                    yield f"{tenant.name} {name} {resource} {shape}", made


def pod(made: Object) -> Object:
    """As the Job controller makes it of the template."""
    template = made["spec"]["template"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": made["metadata"]["name"], "uid": "1"}
    about = {"name": "pod", "namespace": made["metadata"]["namespace"], "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {**template["metadata"], **about}}


RESERVED = str(Path(__file__).parents[2] / "environment" / "plan" / "every-field-eks.yaml")
"""Pools of all capacity types."""


@pytest.mark.parametrize("name", [*environment_names(), RESERVED])
def test_what_the_launcher_creates_is_taken(name: str) -> None:
    plan = read_plan(name)
    judge = judge_of(plan)
    seen = 0
    for shape, made in jobs(plan):
        seen += 1
        wrong = said(judge, made, LAUNCHER) + said(judge, pod(made), JOB_CONTROLLER)
        if found := service({**made, "metadata": {**made["metadata"], "uid": "1"}}):
            wrong += said(judge, found, LAUNCHER)
        assert not wrong, (shape, wrong)
    assert seen >= 2


@pytest.mark.parametrize("name", environment_names())
def test_the_same_from_a_tenant_is_refused(name: str) -> None:
    plan = read_plan(name)
    judge = judge_of(plan)
    shape, made = next(jobs(plan))
    for body in (made, pod(made)):
        assert any("deny queue-marks-are-the-queues" in text for text in said(judge, body, ANYBODY)), shape
