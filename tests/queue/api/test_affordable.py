"""What no period's budget pays for is refused when it is submitted, and not later."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.environment.spec.tenants import Budget, Project
from tests.queue.api.served import Served, problem

JOBS = "/api/v1/gpu-jobs"
LONG = {"gpu_pool_requested": "t4", "container_image": "a:1", "timeout_seconds": 36_000}


@pytest.mark.parametrize("on_exhausted", ["wait", "reject", "preempt"])
def test_what_no_period_pays_for_is_refused_with_the_tightest_budget(api: Any, on_exhausted: str) -> None:
    async def test(served: Served) -> None:
        headers = served.owner | {"X-Tenant-Id": "vision"}
        for place in (JOBS, f"{JOBS}:validate"):
            for more in ({}, {"array": 3}):
                refused = await served.client.post(place, json=LONG | more, headers=headers)
                assert (refused.status_code, problem(refused)) == (422, "never-affordable")
                assert refused.json()["scope"] == "vision"
                assert refused.json()["limit_usd"] == 0.36
                assert refused.json()["needed_usd"] > 0.36
                assert "vision may spend $0.36 a month" in refused.json()["detail"]
        shorter = await served.client.post(JOBS, json=LONG | {"timeout_seconds": 60}, headers=headers)
        assert shorter.status_code == 201
        within = await served.client.post(JOBS, json=LONG | {"budget_limit_usd": 0.3}, headers=headers)
        assert within.status_code == 201, "its own budget ends it before"

    api(test, vision={"budget": Budget(usd=0.36, onExhausted=on_exhausted)})


def test_the_budget_of_a_project_may_be_the_tightest(api: Any) -> None:
    async def test(served: Served) -> None:
        headers = served.owner | {"X-Tenant-Id": "vision"}
        made = await served.client.post(JOBS, json=LONG | {"timeout_seconds": 3600}, headers=headers)
        assert made.status_code == 201, made.text
        of_project = headers | {"X-Project-Id": "small"}
        refused = await served.client.post(JOBS, json=LONG | {"timeout_seconds": 3600}, headers=of_project)
        assert refused.json()["scope"] == "vision/small"

    small = Project(name="small", budget=Budget(usd=0.01, period="day"))
    api(test, vision={"budget": Budget(usd=100), "projects": (small,)})


def test_critical_jobs_may_overrun_and_lose_that_with_their_level(api: Any) -> None:
    async def test(served: Served) -> None:
        headers = served.owner | {"X-Tenant-Id": "vision"}
        body = LONG | {"timeout_seconds": 3 * 3600, "priority": "critical"}
        made = await served.client.post(JOBS, json=body, headers=headers)
        assert made.status_code == 201, made.text
        place = f"{JOBS}/{made.json()['id']}"
        refused = await served.client.patch(place, json={"priority": "low"}, headers=headers)
        assert problem(refused) == "never-affordable"
        assert (await served.client.get(place, headers=headers)).json()["priority"] == "critical"

    budget = Budget(usd=0.1, overrunBy=1.0)
    api(test, vision={"budget": budget, "max_priority": "production-inference"})
