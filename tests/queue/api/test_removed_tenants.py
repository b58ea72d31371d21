"""A tenant leaves the environment file while it has jobs: who acts for all tenants reads and cancels them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpupool.queue.domain.current import current
from gpupool.queue.records import JobState
from gpupool.queue.store import jobs
from gpupool.queue.web.site import add_pages
from tests.queue.api.served import CONTAINER_JOB, VISION, Served, local_plan, problem
from tests.queue.store.samples import dispatched

REMOVED = current(replace(local_plan(), tenants=local_plan().tenants[1:]))


def without_vision(served: Served) -> None:
    context = served.app.state.context
    served.app.state.context = replace(context, current=lambda: REMOVED)


def test_an_admin_reads_and_cancels_jobs_of_a_removed_tenant(api: Any) -> None:
    async def test(served: Served) -> None:
        waiting = await served.submit(await served.key("vision"))
        admin = await served.key("*", scopes=("admin",))
        without_vision(served)
        for tenant in ({}, {"X-Tenant-Id": "vision"}, {"X-Tenant-Id": VISION.upper()}):
            headers = admin | tenant
            listed = (await served.client.get("/api/v1/gpu-jobs", headers=headers)).json()["jobs"]
            assert [job["id"] for job in listed] == [waiting["id"]], tenant
            for part in ("", "/why", "/events", "/logs"):
                answer = await served.client.get(f"/api/v1/gpu-jobs/{waiting['id']}{part}", headers=headers)
                assert answer.status_code == 200, (part, answer.text)
        headers = admin | {"X-Tenant-Id": "vision"}
        refused = await served.client.post("/api/v1/gpu-jobs", json=CONTAINER_JOB, headers=headers)
        assert problem(refused) == "tenant-not-granted"
        typo = await served.client.get("/api/v1/gpu-jobs", headers=admin | {"X-Tenant-Id": "vison"})
        assert problem(typo) == "tenant-not-granted"
        other = await served.key("serving")
        theirs = await served.client.get("/api/v1/gpu-jobs", headers=other | {"X-Tenant-Id": "vision"})
        assert problem(theirs) == "tenant-not-granted"
        address = f"/api/v1/gpu-jobs/{waiting['id']}/cancel"
        cancelled = await served.client.post(address, headers=headers)
        assert cancelled.json()["state"] == "cancelled"

    api(test, dev=False)


def test_pages_show_jobs_of_a_removed_tenant_to_an_admin(api: Any) -> None:
    async def test(served: Served) -> None:
        add_pages(served.app)
        own = await served.key("vision")
        runs = await served.submit(own)
        await dispatched(served.db, now=served.clock.at)
        waits = await served.submit(own)
        admin = await served.key("*", scopes=("admin",)) | {"accept": "text/html"}
        without_vision(served)
        for page in ("/", "/jobs", f"/jobs/{runs['id']}", f"/jobs/{waits['id']}"):
            answer = await served.client.get(page, headers=admin)
            assert answer.status_code == 200, (page, answer.text)
            assert "vision" in answer.text, page
        held = await jobs.job(served.db, runs["id"])
        assert held is not None
        assert held.state is JobState.SCHEDULED
        figures = await served.client.get("/metrics", headers=admin)
        assert 'tenant="vision"' in figures.text

    api(test, dev=False)
