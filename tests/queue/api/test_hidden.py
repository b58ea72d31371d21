"""Values of variables, and what else is known as a secret, are in no answer; what runs has them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpupool.queue.store import jobs, outbox
from gpupool.queue.text_secrets import HIDDEN
from gpupool.queue.variables import variables
from gpupool.queue.web.site import add_pages
from tests.queue.api.served import Served

JOBS = "/api/v1/gpu-jobs"
VISION = {"X-Tenant-Id": "vision"}
SECRET = "hunter2"
CONTAINER: dict[str, Any] = {
    "gpu_pool_requested": "t4",
    "container_image": "registry.example/auth-token:1",
    "env": {"A": SECRET, "DB_PASSWORD": f"{SECRET}$$", "EMPTY": ""},
    "container_command": ["sh", "-c", f"TOKEN={SECRET} run --epochs=3", "--api-key", SECRET],
    "callback_url": f"http://example/done?a=1&token={SECRET}",
}
HTTP: dict[str, Any] = {
    "gpu_pool_requested": "t4",
    "target_url": f"http://example/run?sig={SECRET}",
    "request_json": {"prompt": "a", "auth": {"password": SECRET}, "from": f"s3://u:{SECRET}@h/x"},
}


@pytest.mark.parametrize("body", [CONTAINER, HTTP], ids=["container", "http"])
def test_no_answer_shows_a_secret(api: Any, body: dict[str, Any]) -> None:
    async def test(served: Served) -> None:
        add_pages(served.app)
        headers = served.owner | VISION | {"Idempotency-Key": "k"}
        made = await served.client.post(JOBS, json=body, headers=headers)
        assert made.status_code == 201, made.text
        place = f"{JOBS}/{made.json()['id']}"
        replayed = await served.client.post(JOBS, json=body, headers=headers)
        assert replayed.headers["idempotency-replayed"] == "true"
        answers = [made, replayed, await served.client.post(f"{JOBS}:validate", json=body, headers=headers)]
        pages = (place, f"{place}/why", f"{place}/events", f"{place}/logs", JOBS, "/jobs", "/")
        answers += [await served.client.get(path, headers=VISION) for path in pages]
        answers.append(await served.client.get(place.replace(JOBS, "/jobs"), headers=served.owner))
        answers.append(await served.client.patch(place, json={"priority": "high"}, headers=headers))
        answers.append(await served.client.post(f"{place}/cancel", headers=headers))
        for answer in answers:
            assert answer.is_success, (answer.url, answer.text)
            assert SECRET not in answer.text, answer.url
        events = await outbox.of_job(served.db, made.json()["id"])
        assert events
        assert SECRET not in json.dumps([dict(event.data) for event in events])
        job = await jobs.job(served.db, made.json()["id"])
        assert job is not None
        assert {name: job.request[name] for name in body} == body, "what runs is whole"

    api(test)


def test_names_stay(api: Any) -> None:
    async def test(served: Served) -> None:
        made = await served.submit(target_url=None, request_json=None, **CONTAINER)
        assert made["env"] == dict.fromkeys(CONTAINER["env"], HIDDEN)
        assert made["container_command"] == [
            "sh",
            "-c",
            f"TOKEN={HIDDEN} run --epochs=3",
            "--api-key",
            HIDDEN,
        ]
        assert made["container_image"] == CONTAINER["container_image"]
        assert made["callback_url"] == f"http://example/done?a=1&token={HIDDEN}"
        add_pages(served.app)
        page = await served.client.get(f"/jobs/{made['id']}", headers=served.owner)
        assert "DB_PASSWORD" in page.text
        job = await jobs.job(served.db, made["id"])
        assert job is not None
        assert variables(job, "/scratch")["DB_PASSWORD"] == f"{SECRET}$$"

    api(test)


@pytest.mark.parametrize("field", ["env", "container_command", "callback_url"])
def test_what_is_hidden_is_no_value(api: Any, field: str) -> None:
    async def test(served: Served) -> None:
        made = await served.submit(target_url=None, request_json=None, **CONTAINER)
        again = CONTAINER | {field: made[field]}
        for place in (JOBS, f"{JOBS}:validate"):
            answer = await served.client.post(place, json=again, headers=served.owner | VISION)
            assert (answer.status_code, answer.json()["type"].rpartition("/")[2]) == (422, "invalid-request")
            assert answer.json()["errors"][0]["pointer"].startswith(f"#/{field}")
            assert "stands in answers for what is not shown" in answer.json()["detail"]

    api(test)


def test_nor_is_it_in_json_that_is_sent(api: Any) -> None:
    async def test(served: Served) -> None:
        made = await served.submit(**HTTP)
        for field in ("request_json", "target_url"):
            answer = await served.client.post(JOBS, json=HTTP | {field: made[field]}, headers=VISION)
            assert answer.status_code == 422
            assert answer.json()["errors"][0]["pointer"].startswith(f"#/{field}")

    api(test)


def test_what_is_refused_shows_no_value(api: Any) -> None:
    wrong = (
        {"env": {"A": SECRET, "B": 1}},
        {"env": {"A=": SECRET}},
        {"env": {"A": SECRET + "\0"}},
        {"container_command": [SECRET, 1]},
        {"callback_url": f"http://elsewhere.test/?token={SECRET}"},
        {"callback_url": f"http://u:{SECRET}@example/"},
        {"env": {"NVIDIA_VISIBLE_DEVICES": SECRET}, "container_image": "A:1"},
    )

    async def test(served: Served) -> None:
        for fields in wrong:
            headers = served.owner | VISION
            answer = await served.client.post(JOBS, json=CONTAINER | fields, headers=headers)
            assert answer.status_code == 422
            assert SECRET not in answer.text

    api(test)
