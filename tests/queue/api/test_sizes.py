"""How large shared memory and the scratch volume may be: what a pod of the job has, on pools that have it."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.environment.plan.tenants import memory_quantity
from gpupool.queue.store import jobs
from tests.queue.api.served import CONTAINER_JOB, Served, local_plan

JOBS = "/api/v1/gpu-jobs"
VISION = {"X-Tenant-Id": "vision"}


def test_within_what_a_pod_has_they_are_taken(api: Any) -> None:
    sizes = {"shm_size": "1Gi", "scratch_size": "10G"}

    async def test(served: Served) -> None:
        made = await served.submit(target_url=None, request_json=None, container_image="a:1", **sizes)
        assert {name: made[name] for name in sizes} == sizes
        job = await jobs.job(served.db, made["id"])
        assert job is not None
        assert {name: job.request[name] for name in sizes} == sizes
        none = await served.submit()
        assert (none["shm_size"], none["scratch_size"]) == (None, None)

    api(test)


@pytest.mark.parametrize(
    ("fields", "type", "detail"),
    [
        ({"shm_size": "900Gi"}, "does-not-fit", "shm_size is 900Gi, and a pod of the job has "),
        ({"scratch_size": "21Gi"}, "does-not-fit", "scratch_size is 21Gi, and a pod of the job has 20Gi"),
        ({"shm_size": "0"}, "invalid-request", "is less than 1Mi"),
        ({"shm_size": "64"}, "invalid-request", "is less than 1Mi"),
        ({"shm_size": "8g"}, "invalid-request", "#/shm_size"),
        ({"scratch_size": "-1Gi"}, "invalid-request", "#/scratch_size"),
        ({"scratch_size": 5}, "invalid-request", "#/scratch_size"),
        ({"volumes": [{"claim": "c", "path": "/dev/shm/"}]}, "invalid-request", "is where shared memory is"),
        ({"volumes": [{"claim": "c", "path": "/scratch"}]}, "invalid-request", "is where the scratch vol"),
        ({"volumes": [{"claim": "c", "path": "/d"}, {"claim": "e", "path": "/d/."}]}, "invalid-request",
         "is where volume 0 is"),
    ],
)  # fmt: skip
def test_beyond_it_they_are_refused(api: Any, fields: dict[str, Any], type: str, detail: str) -> None:
    async def test(served: Served) -> None:
        for place in (JOBS, f"{JOBS}:validate"):
            answer = await served.client.post(
                place, json=CONTAINER_JOB | fields, headers=served.owner | VISION
            )
            assert (answer.status_code, answer.json()["type"].rpartition("/")[2]) == (422, type), answer.text
            assert detail in answer.json()["detail"]

    api(test)


def test_they_are_for_containers(api: Any) -> None:
    async def test(served: Served) -> None:
        body = {"gpu_pool_requested": "t4", "target_url": "http://example", "shm_size": "1Gi"}
        answer = await served.client.post(JOBS, json=body, headers=VISION)
        assert answer.status_code == 422
        assert "shm_size: only for jobs with container_image" in answer.json()["detail"]

    api(test)


def test_a_pool_with_less_is_not_offered(api: Any) -> None:
    plan = local_plan()
    memory = {}
    for pool in plan.pools:
        share = pool.share(next(iter(pool.slices_per_node)))
        assert share is not None
        memory[pool.name] = share.memory_mib

    async def test(served: Served) -> None:
        async def offered(**fields: Any) -> set[str]:
            wish = CONTAINER_JOB | {"gpu_pool_requested": "auto", "isolation_level": "exclusive"} | fields
            answer = await served.client.post(f"{JOBS}:validate", json=wish, headers=VISION)
            assert answer.is_success, answer.text
            return {offer["pool"] for offer in answer.json()["offers"]}

        (cheapest,) = await offered()
        (other,) = await offered(shm_size=memory_quantity(memory[cheapest] + 1))
        assert memory[other] > memory[cheapest]

    api(test)
