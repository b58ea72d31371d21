"""Pools, recommendations, usage and metrics, and the OpenAPI document."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from gpupool.environment.spec.tenants import Budget
from gpupool.queue.api.openapi import document
from gpupool.queue.api.pools import PoolList, RecommendationList
from gpupool.queue.api.usage import UsageBody
from gpupool.queue.domain.current import current
from gpupool.queue.measures import Measures
from gpupool.queue.records import Outcome
from gpupool.queue.store import attempts, dispatch, launches
from gpupool.queue.trouble import Trouble, TroubleKind
from gpupool.queue.web.site import add_pages
from tests.queue.api.served import CONTAINER_JOB, LOCAL, Served, listening, problem
from tests.queue.store.samples import dispatched, read

HELD = {"target_url": None, "request_json": None, "container_image": "a", "isolation_level": "exclusive"}


async def running(served: Served, **fields: Any) -> dict[str, Any]:
    """A job that runs on the first offer, node 0."""
    made = await served.submit(**fields)
    assert await dispatched(served.db, now=served.clock(), only=made["id"]) == [made["id"]]
    await attempts.take(served.db, "executor", 100, 30, served.clock())
    assert await attempts.record_start(served.db, made["id"], 1, served.clock())
    served.clock.forward(2)
    return made


def test_pods_of_a_tenants_own_are_shown_as_no_job(api: Any) -> None:
    async def test(served: Served) -> None:
        own = launches.ForeignPods("notebooks", "nvidia.com/gpu.shared", 0, "vision", "on-demand", 2, 250_000)
        epoch = await dispatch.lead(served.db, launches.ROLE, "a test", 60)
        assert epoch is not None
        await launches.replace_foreign(served.db, epoch, [own])
        answer = await served.client.get("/api/v1/pools")
        (notebooks,) = (pool for pool in answer.json()["pools"] if pool["name"] == "notebooks")
        (held,) = notebooks["nodes"][0]["held"]
        assert (held["tenant"], held["job"], held["units"]) == ("vision", None, 2)
        assert "/jobs/pods" not in (await served.client.get("/")).text

    api(test)


def test_pools_show_who_holds_what_and_hide_other_tenants(api: Any) -> None:
    async def test(served: Served) -> None:
        job = await running(served, headers=await served.key("vision"), **HELD)
        admin = await served.client.get("/api/v1/pools", headers=await served.key("*", scopes=("admin",)))
        PoolList.model_validate(admin.json(), extra="forbid")
        by_name = {pool["name"]: pool for pool in admin.json()["pools"]}
        assert "inference-mig" in by_name
        notebooks = by_name["notebooks"]
        assert notebooks["slots"][0] | {"resource": ""} == {
            "resource": "", "total": 24, "held": 8, "free": 16, "gpus_each": 0.125,
            "usd_per_hour": notebooks["slots"][0]["usd_per_hour"], "spot_usd_per_hour": None,
        }  # fmt: skip
        (held,) = notebooks["nodes"][0]["held"]
        assert (held["job"], held["tenant"], held["units"]) == (job["id"], "vision", 8)
        mine = await served.client.get("/api/v1/pools", headers=await served.key("vision"))
        assert job["id"] in mine.text
        assert "inference-mig" not in mine.text
        portal = await served.key("serving", scopes=("jobs:read", "metrics:read"))
        assert [
            pool["name"]
            for pool in (await served.client.get("/api/v1/pools", headers=portal)).json()["pools"]
        ] == ["inference-mig", "batch-a10g", "training"]

    api(test, dev=False)


def test_other_tenants_jobs_have_no_name_in_a_shared_pool(api: Any) -> None:
    async def test(served: Served) -> None:
        job = await running(served, **HELD)
        plan = served.app.state.context.plan()
        (serving,) = [tenant for tenant in plan.tenants if tenant.name == "serving"]
        grants = {**serving.grants, "notebooks": {"nvidia.com/gpu.shared": 8}}
        tenants = tuple(replace(t, grants=grants) if t is serving else t for t in plan.tenants)
        object.__setattr__(served.app.state.context, "current", lambda: shared)
        shared = current(replace(plan, tenants=tenants))
        seen = await served.client.get("/api/v1/pools", headers=await served.key("serving"))
        (held,) = seen.json()["pools"][0]["nodes"][0]["held"]
        assert held == {"resource": held["resource"], "units": 8, "tenant": None, "job": None}
        assert job["id"] not in seen.text
        assert "vision" not in seen.text

    api(test)


def test_a_recommendation_names_the_cheapest_and_its_alternatives(api: Any) -> None:
    async def test(served: Served) -> None:
        response = await served.client.get(
            "/api/v1/recommendations?memory_gib=20&kind=inference&hours_per_month=700",
            headers={"X-Tenant-Id": "vision"},
        )
        answer = response.json()
        RecommendationList.model_validate(answer, extra="forbid")
        assert len(answer["recommendations"]) > 1
        assert all(one["memory_gib"] >= 20 for one in answer["recommendations"])
        assert "reserved capacity" in answer["reserved_hint"]
        none = await served.client.get(
            "/api/v1/recommendations?memory_gib=5000", headers={"X-Tenant-Id": "vision"}
        )
        assert none.json() == {"recommendations": [], "reserved_hint": None}

    api(test)


def test_a_manifest_is_made_for_the_pools_of_the_tenant(api: Any) -> None:
    async def test(served: Served) -> None:
        async def asked(path: str) -> Any:
            return await served.client.get(f"/api/v1/pools/{path}", headers={"X-Tenant-Id": "vision"})

        made = (await asked("training/snippet?for=raycluster&gpu_count=4&min_workers=1&max_workers=3")).json()
        (workers,) = made["spec"]["workerGroupSpecs"]
        assert (made["kind"], made["metadata"]["namespace"]) == ("RayCluster", "team-vision")
        assert (workers["replicas"], workers["minReplicas"], workers["maxReplicas"]) == (1, 1, 3)
        assert made["spec"]["enableInTreeAutoscaling"] is True
        fixed = (await asked("training/snippet?for=raycluster&min_workers=2&max_workers=2")).json()["spec"]
        assert fixed["workerGroupSpecs"][0]["replicas"] == 2
        assert "enableInTreeAutoscaling" not in fixed
        assert workers["template"]["spec"]["nodeSelector"] == {"gpupool.dev/pool": "training"}
        assert (await asked("inference-mig/snippet")).status_code == 404
        for wrong in ("gpu_count=9", "profile=2g.20gb", "for=raycluster&min_workers=3"):
            assert (await asked(f"training/snippet?{wrong}")).status_code == 422, wrong

    api(test)


def test_usage_is_what_the_ledger_settled(api: Any) -> None:
    async def test(served: Served) -> None:
        job = await running(served, headers={"X-Project-Id": "ocr"}, **HELD)
        served.clock.forward(3600 - 2)
        await attempts.finish(served.db, job["id"], 1, Outcome("succeeded"), served.clock(), (10, 600))
        served.clock.forward(1)
        answer = (await served.client.get("/api/v1/tenants/vision/usage")).json()
        UsageBody.model_validate(answer, extra="forbid")
        ((row,), (budget,)) = (answer["usage"], answer["budgets"])
        assert (row["project"], row["pool"], row["jobs"]) == ("ocr", "notebooks", 1)
        assert row["gpu_hours"] == pytest.approx(1)
        assert row["cost_usd"] == answer["cost_usd"] == (await read(served.db, job["id"])).cost_micro / 1e6
        assert budget["spent_usd"] == row["cost_usd"]
        earlier = (served.clock() - timedelta(days=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
        before = await served.client.get(f"/api/v1/tenants/vision/usage?until={earlier}")
        assert before.json()["usage"] == []

    api(test, vision={"budget": Budget(usd=10, alertAt=[1.0], onExhausted="reject")})


def test_a_spent_budget_refuses_where_the_file_says_so(api: Any) -> None:
    async def test(served: Served) -> None:
        key = served.owner | {"X-Tenant-Id": "vision", "Idempotency-Key": "k"}
        own = HELD | {"budget_limit_usd": 0.36}
        made = await running(served, headers=key, **own)
        place = "/api/v1/gpu-jobs"
        again = await served.submit(headers=key, **own)
        assert again["id"] == made["id"], "the job that has spent it"
        other = await served.client.post(place, json=own | {"job_name": "b"}, headers=key)
        assert problem(other) == "idempotency-mismatch"
        body = {"gpu_pool_requested": "t4", "container_image": "a", "timeout_seconds": 60}
        refused = await served.client.post(place, json=body, headers=served.owner | {"X-Tenant-Id": "vision"})
        assert (refused.status_code, problem(refused)) == (422, "budget-exhausted")
        assert re.search(r"the month ends at \d{4}-\d\d-01 00:00 UTC", refused.json()["detail"])
        dry = await served.client.post(f"{place}:validate", json=body, headers={"X-Tenant-Id": "vision"})
        assert dry.json()["budget_allows"] is False

    api(test, vision={"budget": Budget(usd=0.36, alertAt=[1.0], onExhausted="reject")})


def test_metrics_show_the_queue_and_what_roles_measure(api: Any) -> None:
    registry = CollectorRegistry()
    Measures(registry).wait.labels("vision", "low").observe(3)

    async def test(served: Served) -> None:
        await served.submit()
        await running(served, headers={"X-Project-Id": "ocr"}, **HELD)
        text = (await served.client.get("/metrics")).text
        checked = subprocess.run(
            ["promtool", "check", "metrics", "--extended"],
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        assert checked.returncode == 0, checked.stderr
        found = {
            (sample.name, *sorted({*sample.labels.values()} - {"queue"})): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }
        assert found["gpupool_queue_jobs_queued", "low", "vision"] == 1
        assert found["gpupool_queue_jobs_queued", "high", "serving"] == 0
        assert 0 <= found["gpupool_queue_oldest_wait_seconds", "low", "vision"] < 60
        assert found["gpupool_queue_jobs_waiting", "notebooks", "queued"] == 1
        assert found["gpupool_queue_jobs_waiting", "capacity", "notebooks"] == 0
        assert found["gpupool_queue_gpus_held", "job", "notebooks", "on-demand", "vision"] == 1
        rate = found["gpupool_queue_cost_usd_per_hour", "job", "notebooks", "ocr", "on-demand", "vision"]
        assert rate == 0.526
        assert found["gpupool_queue_held_usd", "ocr", "vision"] == 0.36
        assert found["gpupool_queue_wait_seconds_count", "low", "vision"] == 1

    api(test, registry=registry)


def test_the_key_of_prometheus_reads_metrics_and_nothing_else(api: Any) -> None:
    async def test(served: Served) -> None:
        bearer = {"Authorization": "Bearer " + "k" * 40}
        assert (await served.client.get("/metrics", headers=bearer)).status_code == 200
        assert (await served.client.get("/api/v1/pools", headers=bearer)).status_code == 403
        other = {"Authorization": "Bearer " + "k" * 39 + "j"}
        assert (await served.client.get("/metrics", headers=other)).status_code == 401
        assert (await served.client.get("/metrics")).status_code == 401

    api(test, dev=False, metrics_key="k" * 40)


def test_a_process_of_other_roles_shows_what_these_measure_alone(api: Any) -> None:
    """Figures of the whole queue would be counted once for each process that is scraped."""
    registry = CollectorRegistry()
    Measures(registry).wait.labels("vision", "low").observe(3)

    async def test(served: Served) -> None:
        text = (await served.client.get("/metrics")).text
        measured = generate_latest(registry).decode()
        assert text.startswith(measured)
        added = {
            line.split("{")[0].split()[0]
            for line in text.removeprefix(measured).splitlines()
            if line[0] != "#"
        }
        assert all(
            name.removeprefix("gpupool_queue_").startswith(
                ("environment_file_", "plan_", "gpupool_build_info")
            )
            for name in added
        )

    api(test, registry=registry, checks_alone=True)


def test_a_process_is_not_ready_while_a_role_does_not_get_on(api: Any) -> None:
    async def test(served: Served) -> None:
        answer = await served.client.get("/readyz")
        assert (answer.status_code, problem(answer)) == (503, "unavailable")
        assert "dispatcher" in answer.json()["detail"]
        assert (await served.client.get("/healthz")).status_code == 200

    api(test, late=lambda: ["dispatcher"])


def test_the_committed_document_is_what_the_code_says() -> None:
    written = (LOCAL.parents[1] / "docs" / "queue-openapi.json").read_text(encoding="utf-8")
    command = "python -m gpupool.queue.api.openapi > docs/queue-openapi.json"
    assert written == document(), f"write it again: {command}"
    assert json.loads(written)["openapi"] == "3.1.0"


CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


def test_what_schemathesis_draws_is_answered_as_documented(api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few examples of each operation; GPUPOOL_FUZZ multiplies them."""
    import asyncio
    import os

    from gpupool.queue.api import stream

    monkeypatch.setattr(stream, "LONGEST_SECONDS", 0.0)
    monkeypatch.setattr(stream, "POLL_SECONDS", 0.0)
    examples = 8 * int(os.environ.get("GPUPOOL_FUZZ", "1"))

    async def test(served: Served) -> None:
        job = await served.submit()

        def draw(base: str) -> None:
            schema = schemathesis.openapi.from_dict(json.loads(document()))
            for operation in (result.ok() for result in schema.get_all_operations()):

                @settings(
                    max_examples=examples,
                    deadline=None,
                    suppress_health_check=list(HealthCheck),
                    database=None,
                )
                @given(case=operation.as_strategy())
                def one(case: Any) -> None:
                    if "id" in (case.path_parameters or {}) and len(case.path_parameters["id"]) % 2:
                        case.path_parameters["id"] = job["id"]
                    case.call_and_validate(base_url=base, checks=CHECKS, headers={"X-Tenant-Id": "vision"})

                one()

        async with listening(served.app) as client:
            await asyncio.to_thread(draw, str(client.base_url).rstrip("/"))

    api(test)


TROUBLE = Trouble(
    TroubleKind.UNREACHABLE, "https://k8s.example", datetime(2026, 11, 25, 12, tzinfo=UTC), "no route"
)
SAID = "the cluster at https://k8s.example can't be reached since 2026-11-25 12:00:00 UTC: no route"


@pytest.mark.parametrize("needs_cluster", [True, False])
def test_a_process_that_runs_jobs_is_not_ready_without_its_cluster_and_others_say_so(
    api: Any, needs_cluster: bool
) -> None:
    async def test(served: Served) -> None:
        answer = await served.client.get("/readyz")
        if needs_cluster:
            assert (answer.status_code, problem(answer)) == (503, "cluster-unavailable")
            assert answer.json()["detail"] == SAID
        else:
            body = answer.json()
            assert (answer.status_code, body["ready"], body["cluster"]) == (200, True, SAID)

    api(test, trouble=lambda: TROUBLE, needs_cluster=needs_cluster)


def test_jobs_that_need_the_cluster_wait_for_it(api: Any) -> None:
    """One that has a place there already; one that has none goes on waiting for what it waits for."""

    async def test(served: Served) -> None:
        fields = {"target_url": None, "request_json": None, **CONTAINER_JOB}
        queued, placed = [(await served.submit(**fields))["id"] for _ in range(2)]
        called = (await served.submit())["id"]
        for id in (placed, called):
            assert await dispatched(served.db, now=served.clock(), only=id) == [id]
        headers = {"X-Tenant-Id": "vision"}

        async def waits(id: str, view: str = "") -> Any:
            answer = await served.client.get(f"/api/v1/gpu-jobs/{id}{view}", headers=headers)
            waiting = answer.json()["waiting"]
            return waiting and waiting["reason"]

        assert [await waits(id) for id in (queued, placed, called)] == ["queued", "cluster", None]
        assert await waits(placed, "/why") == "cluster"
        page = (await served.client.get(f"/jobs/{placed}")).text
        assert page.count("be reached since 2026-11-25 12:00:00 UTC") == 2, "at the top, and of the job"

    async def keeps_off(served: Served) -> None:
        queued = (await served.submit())["id"]
        for view in ("", "/why"):
            answer = await served.client.get(
                f"/api/v1/gpu-jobs/{queued}{view}", headers={"X-Tenant-Id": "vision"}
            )
            assert answer.json()["waiting"]["reason"] == "cluster"

    api(lambda served: _with_pages(served, test), trouble=lambda: TROUBLE)
    api(keeps_off, trouble=lambda: replace(TROUBLE, kind=TroubleKind.OTHERS))


async def _with_pages(served: Served, test: Any) -> None:
    add_pages(served.app)
    await test(served)
