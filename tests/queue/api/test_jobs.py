"""Jobs over HTTP: submit, read, list, change, cancel, and what is refused."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from gpupool.cli.queue.serve import _objects
from gpupool.queue.api import explanations
from gpupool.queue.api.answers import EventBody, JobBody, SubmittedBody
from gpupool.queue.api.jobs import ValidBody
from gpupool.queue.domain.current import Current
from gpupool.queue.kubernetes.admission import Admission, Refusal, Verdicts
from gpupool.queue.records import Decision, Job, Offer, Waiting, WaitReason
from gpupool.queue.store import dispatch
from tests.queue.api.served import CONTAINER_JOB, HTTP_JOB, OCR, VISION, Served, problem
from tests.queue.store.samples import leading

JOBS = "/api/v1/gpu-jobs"
CURL = {
    "Content-Type": "application/json",
    "X-Tenant-Id": VISION,
    "X-Project-Id": OCR,
    "X-User-Id": "demo",
}


@pytest.mark.parametrize("isolation", ["shared", "exclusive"])
def test_the_two_calls_of_older_clients(api: Any, isolation: str) -> None:
    text = f'{{"gpu_pool_requested":"t4","isolation_level":"{isolation}",'
    text += '"target_url":"http://example","request_json":{"x":1}}'

    async def test(served: Served) -> None:
        response = await served.client.post(JOBS, content=text, headers=CURL)
        assert response.status_code == 201, response.text
        job = response.json()
        SubmittedBody.model_validate(job, extra="forbid")
        assert (job["state"], job["tenant"], job["project_id"], job["user_id"]) == (
            "queued",
            "vision",
            "ocr",
            "demo",
        )
        assert (job["isolation_level"], job["request_json"]) == (isolation, {"x": 1})
        assert response.headers["location"] == f"{JOBS}/{job['id']}"
        assert response.headers["etag"] == '"1"'
        read = await served.client.get(response.headers["location"])
        assert read.headers["etag"] == '"1"'
        assert read.json() | {"waiting": None} == {k: v for k, v in job.items() if k != "job_ids"} | {
            "waiting": None
        }

    api(test)


def test_what_is_answered_at_once_is_what_is_stored(api: Any) -> None:
    async def test(served: Served) -> None:
        made = await served.submit(
            target_url=None,
            request_json=None,
            container_image="a:1",
            env={"A": "b"},
            volumes=[{"claim": "c", "path": "/d"}],
            budget_limit_usd=0.1,
            deadline_seconds=60,
            retries=2,
            preemptible=True,
            callback_url="http://example/done",
        )
        read = (await served.client.get(f"{JOBS}/{made['id']}")).json()
        assert read == {name: value for name, value in made.items() if name != "job_ids"}
        JobBody.model_validate(read, extra="forbid")
        assert read["budget_limit_usd"] == 0.1
        deadline = datetime.fromisoformat(read["deadline_at"])
        assert deadline - datetime.fromisoformat(read["enqueued_at"]) == timedelta(seconds=60)
        assert read["estimate_usd"] <= 0.1
        assert read["volumes"] == [{"claim": "c", "path": "/d", "read_only": False}]

    api(test)


def test_an_idempotency_key_makes_one_job(api: Any) -> None:
    async def test(served: Served) -> None:
        key = {"Idempotency-Key": "k", "X-Tenant-Id": "vision"}
        first, *others = await asyncio.gather(
            *(served.client.post(JOBS, json=HTTP_JOB, headers=key) for _ in range(5))
        )
        assert {response.status_code for response in (first, *others)} == {201}
        assert len({response.json()["id"] for response in (first, *others)}) == 1
        assert sorted("idempotency-replayed" in r.headers for r in (first, *others)) == [False] + [True] * 4
        other = await served.client.post(JOBS, json=HTTP_JOB | {"job_name": "b"}, headers=key)
        assert (other.status_code, problem(other)) == (422, "idempotency-mismatch")
        elsewhere = await served.client.post(JOBS, json=HTTP_JOB, headers=key | {"X-Project-Id": "ocr"})
        assert problem(elsewhere) == "idempotency-mismatch"
        assert len((await served.client.get(JOBS)).json()["jobs"]) == 1

    api(test)


def test_an_array_has_one_group_and_a_list_has_pages(api: Any) -> None:
    async def test(served: Served) -> None:
        made = await served.submit(array=5)
        assert len(made["job_ids"]) == 5
        seen = list[dict[str, Any]]()
        cursor = ""
        while True:
            page = (await served.client.get(f"{JOBS}?group={made['group_id']}&limit=2{cursor}")).json()
            seen += page["jobs"]
            if page["next"] is None:
                break
            cursor = f"&cursor={page['next']}"
        assert [job["group_index"] for job in seen] == [4, 3, 2, 1, 0]
        assert {job["id"] for job in seen} == set(made["job_ids"])
        await served.submit(headers={"X-Project-Id": "ocr"})
        found = (await served.client.get(f"{JOBS}?project={OCR}")).json()["jobs"]
        assert [job["project_id"] for job in found] == ["ocr"]
        assert (await served.client.get(f"{JOBS}?state=running")).json()["jobs"] == []
        assert problem(await served.client.get(f"{JOBS}?cursor=x")) == "invalid-request"
        assert problem(await served.client.get(f"{JOBS}?state=x&limit=201")) == "invalid-request"

    api(test)


def test_a_priority_changes_while_the_job_is_queued(api: Any) -> None:
    async def test(served: Served) -> None:
        job = await served.submit()
        assert job["priority"] == "low"
        place = f"{JOBS}/{job['id']}"
        stale = await served.client.patch(place, json={"priority": "high"}, headers={"If-Match": '"7"'})
        assert (stale.status_code, problem(stale)) == (412, "version-conflict")
        changed = await served.client.patch(place, json={"priority": "high"}, headers={"If-Match": '"1"'})
        assert (changed.status_code, changed.json()["priority"]) == (200, "high")
        assert changed.headers["etag"] == '"2"'
        above = await served.client.patch(place, json={"priority": "critical"})
        assert (above.status_code, problem(above)) == (403, "priority-not-granted")
        cancelled = await served.client.post(f"{place}/cancel")
        assert (cancelled.json()["state"], cancelled.json()["reason"]) == ("cancelled", "cancelled by dev")
        late = await served.client.patch(place, json={"priority": "low"})
        assert (late.status_code, problem(late)) == (409, "not-queued")
        assert (await served.client.post(f"{place}/cancel")).json()["state"] == "cancelled"

    api(test)


REFUSED = {
    "no kind": ({"target_url": None, "request_json": None}, 422, "invalid-request"),
    "two kinds": ({"container_image": "a"}, 422, "invalid-request"),
    "unknown field": ({"gpus": 1}, 422, "invalid-request"),
    "service account": ({"service_account": "default"}, 422, "invalid-request"),
    "node": ({"node_name": "node-0"}, 422, "invalid-request"),
    "node selector": ({"node_selector": {"a": "b"}}, 422, "invalid-request"),
    "host path": ({"host_path": "/"}, 422, "invalid-request"),
    "labels": ({"labels": {"gpupool.dev/job": VISION}}, 422, "invalid-request"),
    "annotations": ({"annotations": {"karpenter.sh/do-not-disrupt": "true"}}, 422, "invalid-request"),
    "number as text": ({"gpu_count": "1"}, 422, "invalid-request"),
    "other target": ({"target_url": "http://169.254.169.254/latest"}, 422, "target-not-allowed"),
    "target with user": ({"target_url": "http://example@evil.test/"}, 422, "target-not-allowed"),
    "target outside ASCII": ({"target_url": "http://e\u017fample/"}, 422, "target-not-allowed"),
    "callback outside ASCII": ({"callback_url": "http://\uff45xample/"}, 422, "target-not-allowed"),
    "target that can't be read": ({"target_url": "http://[]@example"}, 422, "target-not-allowed"),
    "target on another port": ({"target_url": "http://example:81/"}, 422, "target-not-allowed"),
    "other callback": ({"callback_url": "https://example/"}, 422, "target-not-allowed"),
    "no pool": ({"gpu_pool_requested": "nothing"}, 422, "pool-not-found"),
    "foreign pool": ({"gpu_pool_requested": "inference-mig"}, 422, "pool-not-granted"),
    "two slices": ({"gpu_count": 2}, 422, "gpus-not-possible"),
    "alone": (
        {"gpu_pool_requested": "batch-a10g", "isolation_level": "exclusive"}, 422, "exclusive-not-possible"
    ),
    "too many GPUs": (
        {"gpu_pool_requested": "training", "gpu_count": 8, "preemptible": False},
        422,
        "does-not-fit",
    ),
    "foreign project": ({"project_id": "other"}, 403, "project-not-granted"),
    "critical": ({"priority": "critical"}, 403, "priority-not-granted"),
    "long": ({"timeout_seconds": 31_000_000}, 422, "invalid-request"),
    "no such job": ({"depends_on": VISION}, 422, "no-such-dependency"),
}  # fmt: skip


def test_what_can_not_be_served_is_refused_with_its_problem(api: Any) -> None:
    async def test(served: Served) -> None:
        for name, (fields, status, expected) in REFUSED.items():
            for place in (JOBS, f"{JOBS}:validate"):
                response = await served.client.post(
                    place, json=HTTP_JOB | fields, headers={"X-Tenant-Id": "vision"}
                )
                assert (response.status_code, problem(response)) == (status, expected), name
        assert (await served.client.get(JOBS)).json()["jobs"] == []

    api(test)


def test_what_a_policy_of_the_cluster_refuses_is_not_accepted(api: Any) -> None:
    async def test(served: Served) -> None:
        unpinned = CONTAINER_JOB | {"container_image": "busybox"}
        for place in (JOBS, f"{JOBS}:validate"):
            headers = served.owner | {"X-Tenant-Id": "vision"}
            response = await served.client.post(place, json=unpinned, headers=headers)
            assert problem(response) == "policy-refuses"
            said = "policy pin-images: image busybox is not pinned; name a version or a digest"
            body = response.json()
            assert (response.status_code, body["detail"]) == (422, f"{said}; change container_image")
            assert body["errors"] == [{"pointer": "#/container_image", "detail": said}]
            response = await served.client.post(place, json=CONTAINER_JOB, headers=headers)
            assert response.is_success, response.text
        assert (await served.submit())["target_url"] == "http://example"
        images = {job["container_image"] for job in (await served.client.get(JOBS)).json()["jobs"]}
        assert images == {None, CONTAINER_JOB["container_image"]}

    api(test, admission=Admission(_objects))


def test_the_offers_on_which_policies_take_a_job_remain(api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wish = {"gpu_pool_requested": "research-a100", "container_image": "a:1"}

    def refusals(self: Verdicts, job: Job, offer: Offer, present: Current) -> list[Refusal]:
        return [Refusal("own", "not here", None)] if offer.pool in refused else []

    async def test(served: Served) -> None:
        async def asked() -> Any:
            return await served.client.post(f"{JOBS}:validate", json=wish, headers={"X-Tenant-Id": "vision"})

        assert [offer["pool"] for offer in (await asked()).json()["offers"]] == ["research-h100"]
        refused.append("research-h100")
        answer = await asked()
        assert problem(answer) == "policy-refuses"
        assert answer.json()["errors"] == [{"pointer": "#", "detail": "policy own: not here"}]

    refused = ["research-a100"]
    monkeypatch.setattr(Verdicts, "refusals", refusals)
    api(test, admission=Admission(_objects))


def test_a_key_finds_its_job_though_policies_refuse_it_now(api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(served: Served) -> None:
        headers = served.owner | {"X-Tenant-Id": "vision", "Idempotency-Key": "one"}
        first = await served.client.post(JOBS, json=CONTAINER_JOB, headers=headers)
        monkeypatch.setattr(Verdicts, "refusals", lambda *_: [Refusal("own", "not now", None)])
        again = await served.client.post(JOBS, json=CONTAINER_JOB, headers=headers)
        assert (again.status_code, again.json()["id"]) == (201, first.json()["id"])

    api(test, admission=Admission(_objects))


def test_a_dry_run_says_what_would_become_of_a_job(api: Any) -> None:
    async def test(served: Served) -> None:
        response = await served.client.post(
            f"{JOBS}:validate", json=CONTAINER_JOB | {"priority": "medium"}, headers={"X-Tenant-Id": "vision"}
        )
        assert response.status_code == 200, response.text
        answer = response.json()
        ValidBody.model_validate(answer, extra="forbid")
        assert (answer["waiting"], answer["priority"], answer["position"]) == (None, "low", 0)
        assert answer["offers"][0]["pool"] == "notebooks"
        assert answer["estimate_usd"] == pytest.approx(4 * answer["offers"][0]["usd_per_hour"], abs=1e-5)
        assert answer["projected_start"]
        array = await served.client.post(
            f"{JOBS}:validate", json=CONTAINER_JOB | {"array": 5}, headers={"X-Tenant-Id": "vision"}
        )
        assert array.json()["estimate_usd"] == pytest.approx(5 * answer["estimate_usd"], abs=1e-5)
        assert (await served.client.get(JOBS)).json()["jobs"] == []

    api(test)


def test_why_a_job_waits_is_shown_and_explained(api: Any) -> None:
    async def test(served: Served) -> None:
        job = await served.submit()
        epoch = await leading(served.db)
        waits = {job["id"]: Waiting(WaitReason.CAPACITY, "24 of 24 slots in use")}
        await dispatch.claim(served.db, epoch, Decision(waits=waits), "hash", 60, served.clock())
        shown = (await served.client.get(f"{JOBS}/{job['id']}")).json()
        assert shown["waiting"] == {"reason": "capacity", "detail": "24 of 24 slots in use"}
        why = (await served.client.get(f"{JOBS}/{job['id']}/why")).json()
        assert why["terms"]["level"]["granted"] == "low"
        assert why["position"] == 0
        assert why["projected_start"]
        child = await served.submit(depends_on=job["id"])
        assert child["waiting"]["reason"] == "dependency"
        why = (await served.client.get(f"{JOBS}/{child['id']}/why")).json()
        assert why["waiting"]["reason"] == "dependency"

    api(test)


def test_each_job_of_a_long_lane_has_its_place_and_its_time(api: Any) -> None:
    async def test(served: Served) -> None:
        ids = (await served.submit(array=200, timeout_seconds=3600, gpu_pool_requested="t4"))["job_ids"]
        served.clock.forward(2)
        whys = {
            place: (await served.client.get(f"{JOBS}/{ids[place]}/why")).json()
            for place in (0, 19, 20, 57, 199)
        }
        assert [why["position"] for why in whys.values()] == list(whys)
        assert "199 jobs of vision" in whys[199]["waiting"]["detail"]
        assert (whys[0]["projection"], whys[199]["projection"]) == ("start", "after")
        times = [
            datetime.fromisoformat(why["projected_start"]) for why in whys.values() if why["projected_start"]
        ]
        assert times == sorted(times)
        assert times[-1] > times[0]
        body = HTTP_JOB | {"timeout_seconds": 3600, "gpu_pool_requested": "t4"}
        answer = await served.client.post(f"{JOBS}:validate", json=body, headers={"X-Tenant-Id": "vision"})
        assert answer.json()["position"] == 200
        assert answer.json()["projection"] == "after"
        assert datetime.fromisoformat(answer.json()["projected_start"]) >= times[-1]

    api(test)


def test_explanations_do_not_pile_up(api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explanations, "ASKED_EACH", 2)

    async def test(served: Served) -> None:
        job = await served.submit()
        answers = await asyncio.gather(*(served.client.get(f"{JOBS}/{job['id']}/why") for _ in range(6)))
        refused = [answer for answer in answers if answer.status_code != 200]
        assert 1 <= len(refused) <= 4
        assert {problem(answer) for answer in refused} == {"rate-limited"}
        assert (await served.client.get(f"{JOBS}/{job['id']}/why")).status_code == 200

    api(test)


def test_a_job_without_output_or_result_says_so(api: Any) -> None:
    async def test(served: Served) -> None:
        job = await served.submit()
        place = f"{JOBS}/{job['id']}"
        logs = await served.client.get(f"{place}/logs")
        assert (logs.status_code, logs.text) == (200, "")
        assert problem(await served.client.get(f"{place}/result")) == "no-result"
        (event,) = (await served.client.get(f"{place}/events")).json()["events"]
        assert (event["type"], event["seq"]) == ("mlops.gpu.jobs.enqueued", 1)
        EventBody.model_validate(event, extra="forbid")

    api(test)
