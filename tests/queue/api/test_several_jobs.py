"""Operations on several jobs: beginnings of ids, arrays that others come after, cancelling, running again."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.queue.records import JobState
from gpupool.queue.store import several_jobs
from tests.queue.api.served import CONTAINER_JOB, HTTP_JOB, Served, problem
from tests.queue.store.samples import dispatched, finished, read

JOBS = "/api/v1/gpu-jobs"
VISION = {"X-Tenant-Id": "vision"}


async def found(served: Served, id: str, headers: dict[str, str] | None = None) -> dict[str, Any]:
    response = await served.client.get(f"{JOBS}:find", params={"id": id}, headers=headers or {})
    assert response.status_code == 200, response.text
    return dict(response.json())


def test_the_old_name_of_a_state_is_refused_with_the_new_one(api: Any) -> None:
    async def test(served: Served) -> None:
        listed = await served.client.get(JOBS, params={"state": "dispatching"}, headers=VISION)
        cancelled = await post(served, ":cancel", VISION, state=["dispatching"])
        for response in (listed, cancelled):
            assert problem(response) == "invalid-request"
            assert response.json()["detail"].endswith("is now called scheduled; write scheduled")

    api(test)


def test_a_beginning_of_an_id_finds_jobs_and_arrays_of_ones_own_tenants(api: Any) -> None:
    async def test(served: Served) -> None:
        own = await served.key("vision")
        other = await served.key("serving")
        alone = await served.submit(own)
        array = await served.submit(own, array=12)
        assert await found(served, alone["id"], own) == {"jobs": [alone["id"]], "arrays": [], "more": False}
        for id in (array["group_id"], array["group_id"].upper(), array["group_id"][:30]):
            assert (await found(served, id, own))["arrays"] == [array["group_id"]]
        many = await found(served, alone["id"][:8], own)
        assert (len(many["jobs"]), many["more"]) == (several_jobs.LISTED, True)
        assert await found(served, alone["id"], other) == {"jobs": [], "arrays": [], "more": False}
        for wrong in ("", "0195", alone["id"][:7], "0195d6c8_", "0195d6c82f3a", f"{alone['id']}0", "x" * 8):
            assert (
                await served.client.get(f"{JOBS}:find", params={"id": wrong}, headers=own)
            ).status_code == 422
        blind = await served.key("vision", scopes=("usage:read",))
        response = await served.client.get(f"{JOBS}:find", params={"id": alone["id"]}, headers=blind)
        assert problem(response) == "insufficient-scope"

    api(test, dev=False)


async def post(served: Served, path: str, headers: dict[str, str], **body: Any) -> Any:
    return await served.client.post(f"{JOBS}{path}", json=body, headers=headers)


async def states(served: Served, array: str) -> list[str]:
    return [member.state.value for member in await several_jobs.members(served.db, array)]


def test_jobs_come_after_arrays_and_after_several_jobs(api: Any) -> None:
    async def test(served: Served) -> None:
        array = await served.submit(array=2)
        alone = await served.submit()
        both = await served.submit(depends_on=[array["group_id"], alone["id"], alone["id"]])
        any_end = await served.submit(depends_on_ended=array["group_id"], array=2)
        assert both["depends_on"] == [array["group_id"], alone["id"]]
        waits = f"waits until {array['group_id']} and {alone['id']} have succeeded"
        assert both["waiting"] == {"reason": "dependency", "detail": waits}
        for id in (alone["id"], array["job_ids"][0]):
            assert await dispatched(served.db, now=served.clock(), only=id) == [id]
            await finished(served.db, await read(served.db, id), "succeeded")
        assert (await read(served.db, both["id"])).blocked
        response = await post(served, f"/{array['job_ids'][1]}/cancel", served.owner)
        assert response.json()["state"] == "cancelled"
        job = await read(served.db, both["id"])
        assert (job.state, job.reason) == (JobState.CANCELLED, "dependency")
        for id in any_end["job_ids"]:
            job = await read(served.db, id)
            assert (job.state, job.blocked) == (JobState.QUEUED, False)
        late = await served.submit(depends_on_ended=[array["group_id"]], depends_on=[alone["id"]])
        assert (late["state"], late["waiting"]["reason"]) == ("queued", "queued")

    api(test)


def test_what_a_job_comes_after_is_of_its_own_tenant(api: Any) -> None:
    async def test(served: Served) -> None:
        array = await served.submit(array=2)
        for field in ("depends_on", "depends_on_ended"):
            for ids in ([array["group_id"]], array["job_ids"][0], [array["id"], array["id"][:-4] + "0000"]):
                body = HTTP_JOB | {field: ids, "gpu_pool_requested": "auto"}
                tenant = "vision" if isinstance(ids, list) and len(ids) == 2 else "serving"
                for path in ("", ":validate"):
                    headers = served.owner | {"X-Tenant-Id": tenant}
                    response = await served.client.post(f"{JOBS}{path}", json=body, headers=headers)
                    assert problem(response) == "no-such-dependency", (field, ids, path)
            many = {field: [array["id"]] * 21}
            response = await served.client.post(JOBS, json=HTTP_JOB | many, headers=served.owner | VISION)
            assert problem(response) == "invalid-request"

    api(test)


def test_cancelling_by_a_filter_reaches_its_jobs_and_no_others(api: Any) -> None:
    async def test(served: Served) -> None:
        headers = served.owner | VISION
        mine = await served.submit(array=3, job_name="sweep")
        runs = mine["job_ids"][0]
        assert await dispatched(served.db, now=served.clock(), only=runs) == [runs]
        after = await served.submit(depends_on=mine["group_id"])
        kept = await served.submit(job_name="kept")
        other = await served.submit({"X-Tenant-Id": "serving"}, gpu_pool_requested="auto", job_name="sweep")
        answer = (await post(served, ":cancel", headers, name="sweep", state=["queued"])).json()
        ended = {job["id"]: job["state"] for job in answer["jobs"]}
        assert ended == dict.fromkeys(mine["job_ids"][1:], "cancelled")
        assert answer["more"] is False
        assert await states(served, mine["group_id"]) == ["scheduled", "cancelled", "cancelled"]
        assert (await read(served.db, after["id"])).state is JobState.CANCELLED, "one of them did not succeed"
        answer = (await post(served, ":cancel", served.owner, group=mine["group_id"])).json()
        assert answer == {"jobs": [{"id": runs, "state": "scheduled"}], "more": False}
        assert (await post(served, ":cancel", headers, group=mine["group_id"])).json()["jobs"] == [], (
            "asked once"
        )
        for job in (kept, other):
            assert (await read(served.db, job["id"])).state is JobState.QUEUED
        answer = (await post(served, ":cancel", headers, all=True)).json()
        assert [job["id"] for job in answer["jobs"]] == [kept["id"]]
        assert (await read(served.db, other["id"])).state is JobState.QUEUED

    api(test)


def test_cancelling_several_is_bounded_and_says_what_is_left(
    api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(several_jobs.cancel_all, "__defaults__", (2,))

    async def test(served: Served) -> None:
        headers = served.owner | VISION
        array = await served.submit(array=5)
        reached, more = [], True
        while more:
            answer = (await post(served, ":cancel", headers, group=array["group_id"])).json()
            assert len(answer["jobs"]) <= 2
            reached += [job["id"] for job in answer["jobs"]]
            more = answer["more"]
        assert sorted(reached) == array["job_ids"]
        assert reached[0] in array["job_ids"][-2:], "the latest first"

    api(test)


def test_who_may_not_cancel_one_job_may_not_cancel_several(api: Any) -> None:
    async def test(served: Served) -> None:
        own, other = await served.key("vision"), await served.key("serving")
        array = await served.submit(own, array=2)
        reads = await served.key("vision", scopes=("jobs:read",))
        both = await served.key("vision", "serving")
        group = {"group": array["group_id"]}
        for headers, body, expected in (
            (other, group, "not-found"),
            (both | {"X-Tenant-Id": "serving"}, group, "not-found"),
            (reads, group, "insufficient-scope"),
            (both, {"all": True}, "tenant-required"),
            (other | VISION, {"all": True}, "tenant-not-granted"),
            (own, {}, "invalid-request"),
            (own, {"all": True, "name": "x"}, "invalid-request"),
            (own, {"state": ["succeeded"]}, "invalid-request"),
        ):
            assert problem(await post(served, ":cancel", headers, **body)) == expected, (headers, body)
        assert (await post(served, ":cancel", other, all=True)).json()["jobs"] == []
        assert await states(served, array["group_id"]) == ["queued", "queued"]

    api(test, dev=False)


def test_without_the_token_nothing_runs_again_and_nothing_is_cancelled_at_once(api: Any) -> None:
    async def test(served: Served) -> None:
        job = await served.submit(**CONTAINER, array=2)
        for path, body in (
            (f"/{job['id']}/rerun", {}),
            (f"/{job['group_id']}/rerun", {}),
            (f"/{job['id']}/rerun", {"changes": {"container_image": None, "target_url": "http://example"}}),
            (":cancel", {"all": True}),
            (":cancel", {"group": job["group_id"]}),
        ):
            assert problem(await post(served, path, VISION, **body)) == "token-needed", path
        http = await served.submit()
        changes = CONTAINER_JOB | {"target_url": None, "request_json": None}
        refused = await post(served, f"/{http['id']}/rerun", VISION, changes=changes)
        assert problem(refused) == "token-needed"
        assert (await post(served, f"/{http['id']}/rerun", VISION)).status_code == 201

    api(test)


CONTAINER = {"target_url": None, "request_json": None, "container_image": "a:1"}


def test_a_job_runs_again_as_it_was_submitted_but_for_the_changes(api: Any) -> None:
    async def test(served: Served) -> None:
        parent = await served.submit()
        asked = {"env": {"A": "1", "B": "2"}, "container_command": ["x"], "retries": 0, "timeout_seconds": 60}
        first = await served.submit(**CONTAINER, **asked, depends_on=parent["id"], project_id="ocr")
        headers = served.owner | {"Idempotency-Key": "again"}
        changes = {"env": {"B": "3"}, "timeout_seconds": None, "gpu_count": 1, "priority": "low"}
        again = (await post(served, f"/{first['id']}/rerun", headers, changes=changes)).json()
        request = (await read(served.db, again["id"])).request
        assert request["env"] == {"A": "1", "B": "3"}
        assert (request["container_command"], request["retries"]) == (["x"], 0)
        assert (again["depends_on"], again["project_id"], again["tenant"]) == ([], "ocr", "vision")
        assert again["timeout_seconds"] != 60
        assert again["id"] != first["id"]
        repeated = await post(served, f"/{first['id']}/rerun", headers, changes=changes)
        assert (repeated.json()["id"], repeated.headers["Idempotency-Replayed"]) == (again["id"], "true")
        wrong = await post(served, f"/{first['id']}/rerun", served.owner, changes={"gpus": 2, "retries": "x"})
        assert {row["pointer"] for row in wrong.json()["errors"]} == {"#/gpus", "#/retries"}

    api(test)


def test_an_array_runs_again_with_its_indexes(api: Any) -> None:
    async def test(served: Served) -> None:
        array = await served.submit(array=3)
        one, two, three = array["job_ids"]
        for id, how in ((one, "succeeded"), (three, "failed")):
            assert await dispatched(served.db, now=served.clock(), only=id) == [id]
            await finished(served.db, await read(served.db, id), how, retry=False)
        for body, id, indexes in (
            ({}, array["group_id"], [0, 1, 2]),
            ({"unsuccessful": True}, array["group_id"].upper(), [2]),
            ({}, two, [1]),
        ):
            again = (await post(served, f"/{id}/rerun", served.owner | VISION, **body)).json()
            members = await several_jobs.members(served.db, again["group_id"])
            assert [member.index for member in members] == indexes
            assert [member.id for member in members] == again["job_ids"]
        wrong = await post(served, f"/{two}/rerun", served.owner, changes={"array": 2})
        assert problem(wrong) == "invalid-request"

    api(test)


def test_who_may_not_submit_a_job_does_not_run_it_again(api: Any) -> None:
    async def test(served: Served) -> None:
        own, other = await served.key("vision"), await served.key("serving")
        job = await served.submit(own, array=2)
        reads = await served.key("vision", scopes=("jobs:read",))
        for id in (job["id"], job["group_id"], "x", job["id"][:8]):
            assert problem(await post(served, f"/{id}/rerun", other)) == "not-found"
        assert problem(await post(served, f"/{job['id']}/rerun", reads)) == "insufficient-scope"
        assert (await post(served, f"/{job['id']}/rerun", own)).status_code == 201

    api(test, dev=False)


def test_variables_of_others_do_not_come_out_by_running_again(api: Any) -> None:
    async def test(served: Served) -> None:
        any_user = ("jobs:read", "jobs:write", "users:any")
        admin = await served.key("vision", scopes=any_user)
        own = await served.key("vision")
        job = await served.submit(admin | {"X-User-Id": "ada"}, **CONTAINER, env={"TOKEN": "s3cret"})
        for changes in (
            {"container_command": ["env"]},
            {"container_image": "mine:1"},
            {"env": {"PATH": "/mine"}},
            {"volumes": [{"claim": "c", "path": "/bin"}]},
        ):
            refused = await post(served, f"/{job['id']}/rerun", own, changes=changes)
            assert problem(refused) == "user-not-granted", changes
        for headers, changes in ((own, {"priority": "low"}), (admin, {"container_command": ["env"]})):
            assert (await post(served, f"/{job['id']}/rerun", headers, changes=changes)).status_code == 201

    api(test, dev=False)
