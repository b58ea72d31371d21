"""What each operation sends, and how its answer is read; nothing is sent here."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

from gpupool.client import GPUType, JobPriority, JobState, operations
from gpupool.client.values import JobFields, made

JOB = {
    "id": "j1",
    "state": "queued",
    "tenant": "vision",
    "enqueued_at": "2026-03-01T12:00:00Z",
    "waiting": {"reason": "tenant_limit", "detail": "8 of 8 GPUs in use by vision"},
    "version": 3,
    "from_a_newer_queue": True,
}


def test_submit_sends_the_fields_that_are_given_and_a_key() -> None:
    call = operations.submit(
        {
            "job_name": "finetune",
            "project_id": "detector",
            "priority": JobPriority.HIGH,
            "gpu_type": GPUType.A100_80GB,
            "gpu_count": 4,
            "budget_limit_usd": 100.0,
            "env": None,  # type: ignore[typeddict-item]
        }
    )
    assert (call.method, call.path, call.repeatable) == ("POST", "/api/v1/gpu-jobs", True)
    assert call.json == {
        "job_name": "finetune",
        "project_id": "detector",
        "priority": "high",
        "gpu_type": "a100-80gb",
        "gpu_count": 4,
        "budget_limit_usd": 100.0,
    }
    assert uuid.UUID(call.headers["Idempotency-Key"])
    assert operations.submit({}, "mine").headers["Idempotency-Key"] == "mine"
    assert operations.submit({}).headers != operations.submit({}).headers


def test_a_job_is_read_with_its_times_and_unknown_fields_are_kept() -> None:
    job = made(JobFields, operations.job("j1").parse(JOB))
    assert (job.id, job.state, job.version, job.ended) == ("j1", JobState.QUEUED, 3, False)
    assert job.enqueued_at == datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert job.waiting is not None
    assert job.waiting.reason == "tenant_limit"
    assert job.data["from_a_newer_queue"] is True
    assert made(JobFields, {**JOB, "state": "frozen"}).state == "frozen"
    assert made(JobFields, {**JOB, "state": "failed"}).ended


def test_ids_and_tenants_can_not_leave_their_place_in_the_path() -> None:
    assert operations.job("../x?y#z").path == "/api/v1/gpu-jobs/..%2Fx%3Fy%23z"
    assert operations.usage("a/b").path == "/api/v1/tenants/a%2Fb/usage"


def test_a_page_and_its_parameters() -> None:
    call = operations.jobs(states=("queued", "running"), project="ocr", cursor="c", limit=2)
    assert dict(call.params) == {
        "state": ["queued", "running"],
        "project": "ocr",
        "cursor": "c",
        "limit": 2,
    }
    page = call.parse({"jobs": [JOB], "next": None})
    assert (page.jobs, page.next) == ((JOB,), None)


def test_a_priority_with_a_version_is_sent_once() -> None:
    call = operations.set_priority("j", JobPriority.LOW, 3)
    assert (call.method, call.json, dict(call.headers)) == ("PATCH", {"priority": "low"}, {"If-Match": '"3"'})
    assert not call.repeatable
    assert operations.set_priority("j", "low").repeatable


def test_streams() -> None:
    assert dict(operations.logs("j", follow=True, attempt=2).params) == {"follow": "true", "attempt": 2}
    assert dict(operations.logs("j").params) == {}
    assert operations.events(0).headers["Last-Event-ID"] == "0"
    assert "Last-Event-ID" not in operations.events().headers


def test_an_answer_is_bytes_whatever_its_encoding() -> None:
    call = operations.result("j")
    headers = [["content-type", "text/plain"]]
    text = {"status": 200, "headers": headers, "body": "é", "encoding": "utf-8", "truncated": False}
    assert call.parse(text).body == "é".encode()
    assert call.parse({**text, "body": "/w==", "encoding": "base64"}).body == b"\xff"
    assert call.parse(text).headers == (("content-type", "text/plain"),)


def test_forecast_why_pools_usage_and_recommendations() -> None:
    offer = {"pool": "a", "resource": "nvidia.com/gpu", "units": 4, "gpus": 4.0, "usd_per_hour": 13.7}
    forecast = operations.validate({}).parse({"fits": True, "offers": [offer], "projected_start": None})
    assert forecast.offers[0].pool == "a"
    why = operations.why("j").parse({"id": "j", "state": "queued", "position": 2, "terms": {"level": 1}})
    assert (why.position, why.terms) == (2, {"level": 1})
    (pool,) = operations.pools().parse({"pools": [{"name": "a", "slots": [{"free": 1}], "nodes": []}]})
    assert (pool.slots, pool.data["nodes"]) == (({"free": 1},), [])
    usage = operations.usage("t").parse({"tenant": "t", "since": "2026-03-01T00:00:00Z", "usage": []})
    assert usage.since == datetime(2026, 3, 1, tzinfo=UTC)
    (one,) = operations.recommendations(40).parse({"recommendations": [{**offer, "why": "cheapest"}]})
    assert (one.pool, one.why) == ("a", "cheapest")
