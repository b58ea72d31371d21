"""What no client should send: it is answered with a problem, and the service goes on."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
from typing import Any

import pytest
import structlog.testing
from hypothesis import given
from hypothesis import strategies as st

from gpupool.queue.api import json_bounds
from gpupool.queue.api.problems import TYPES, page
from gpupool.queue.domain import offers
from gpupool.queue.store.errors import Unavailable
from tests.growth import FACTOR, LINEAR, growth
from tests.queue.api.served import CONTAINER_JOB, HTTP_JOB, LOCAL, Served, problem

JOBS = "/api/v1/gpu-jobs"
NESTED = '{"job_name": "job", "request_json": ' + "[" * 30 + "]" * 30 + "}"
HEADERS = {"X-Tenant-Id": "vision", "Content-Type": "application/json"}


def body(**fields: Any) -> bytes:
    return json.dumps(HTTP_JOB | fields).encode()


def container(**fields: Any) -> bytes:
    return json.dumps(CONTAINER_JOB | fields).encode()


def raw(text: str) -> bytes:
    """An HTTP job whose request_json is this text."""
    return body().replace(b'{"x": 1}', text.encode())


MANY = dict.fromkeys(map(str, range(49_000)), 1)
SENT = {
    "too large": (b'{"a": "' + b"x" * (1 << 20) + b'"}', "body-too-large"),
    "deep objects": (raw('{"a":' * 100_000 + "1" + "}" * 100_000), "json-too-deep"),
    "deep arrays": (raw("[" * 21 + "]" * 21), "json-too-deep"),
    "deep and cut off": (b"[" * 500_000, "json-too-deep"),
    "quotes that do not end": (b'\\"' * 500_000 + b"[" * 30, "json-too-deep"),
    "a megabyte of brackets": (b"[]" * (1 << 19), "json-too-many"),
    "deep between others": (raw("[" + "[]," * 30_000 + "[" * 20 + "]" * 20 + "]"), "json-too-deep"),
    "deep behind brackets in text": (raw('["]]]\\\\\\"{", ' + "[" * 20 + "]" * 20 + "]"), "json-too-deep"),
    "too many numbers": (raw("[" + "1," * 100_000 + "1]"), "json-too-many"),
    "too many strings": (raw('["' + '","' * 200_000 + '"]'), "json-too-many"),
    "too many members": (raw("{" + ",".join(f'"{n:x}":1' for n in range(50_001)) + "}"), "json-too-many"),
    "90,000 unknown fields": (b"{" + b",".join(b'"%x":1' % n for n in range(90_000)) + b"}", "json-too-many"),
    "49,000 unknown fields": (json.dumps(MANY).encode(), "invalid-request"),
    "a field of a megabyte": (b'{"' + b"x" * 1_000_000 + b'": 1}', "invalid-request"),
    "49,000 wrong variables": (container(env={f"={n}": 1 for n in range(49_000)}), "invalid-request"),
    "99,000 wrong arguments": (container(container_command=[1] * 99_000), "invalid-request"),
    "a volume of 49,000 fields": (container(volumes=[MANY]), "invalid-request"),
    "99,000 volumes": (container(volumes=[1] * 99_000), "invalid-request"),
    "a number of a million digits": (raw("9" * 1_000_000), "invalid-json"),
    "no JSON": (b"{", "invalid-json"),
    "no UTF-8": (b'{"job_name": "\xff\xfe"}', "invalid-json"),
    "UTF-16": (body(request_json=[[1]]).decode().encode("utf-16-le"), "invalid-json"),
    "UTF-16 with a quote in a letter": (NESTED.replace("job", "j\u0122").encode("utf-16"), "invalid-json"),
    "UTF-32": (body().decode().encode("utf-32-be"), "invalid-json"),
    "nothing": (b"", "invalid-request"),
    "an array": (b"[]", "invalid-request"),
    "NaN": (raw("NaN"), "invalid-request"),
    "infinity": (raw("1e999"), "invalid-request"),
    "a number of 5,000 digits": (raw("9" * 5_000), "invalid-json"),
    "a number of 400 digits": (raw("9" * 400), "invalid-request"),
    "many GPUs": (body(gpu_count=10**30), "invalid-request"),
    "minus one GPU": (body(gpu_count=-1), "invalid-request"),
    "half a GPU": (body(gpu_count=0.5), "invalid-request"),
    "a rich job": (body(budget_limit_usd=1e300), "invalid-request"),
    "no budget": (body(budget_limit_usd=0), "invalid-request"),
    "a budget that pays for no second": (body(budget_limit_usd=1e-6), "never-affordable"),
    "long names": (body(job_name="x" * 201), "invalid-request"),
    "NUL in a name": (body(job_name="a\x00"), "invalid-request"),
    "an escape in a name": (body(job_name="\x1b[31m"), "invalid-request"),
    "text turned around": (body(job_name="a\u202eb"), "invalid-request"),
    "half a pair in a name": (body().replace(b'"t4"', b'"\\ud800"'), "invalid-request"),
    "NUL deep in JSON": (raw('{"a": ["\\u0000"]}'), "invalid-request"),
    "half a pair deep in JSON": (raw('{"a": ["\\udfff"]}'), "invalid-request"),
    "half a pair as a key": (raw('{"\\udfff": 1}'), "invalid-request"),
    "thousands of variables": (container(env={f"A{n}": "1" for n in range(5_000)}), "invalid-request"),
    "a variable without a name": (container(env={"": "1"}), "invalid-request"),
    "a variable with =": (container(env={"A=B": "1"}), "invalid-request"),
    "NUL in a variable": (container(env={"A": "\x00"}), "invalid-request"),
    "half a pair in a command": (container(container_command=["\udc00"]), "invalid-request"),
    "a thousand arguments": (container(container_command=["x"] * 1_000), "invalid-request"),
    "a space in an image": (container(container_image="a b"), "invalid-request"),
    "a relative path": (container(volumes=[{"claim": "a", "path": "b"}]), "invalid-request"),
    "a million jobs": (body(array=1_000_000), "invalid-request"),
    "no address": (body(target_url="http://"), "invalid-request"),
    "another scheme": (body(target_url="file:///etc/passwd"), "invalid-request"),
    "a broken address": (body(target_url="http://[::1/"), "target-not-allowed"),
    "a port too high": (body(target_url="http://example:99999/"), "target-not-allowed"),
    "a look-alike": (body(target_url="http://\u0435xample/"), "target-not-allowed"),
}  # fmt: skip


def test_what_no_client_should_send_is_answered_with_a_problem(api: Any) -> None:
    async def test(served: Served) -> None:
        for name, (content, expected) in SENT.items():
            for path in (JOBS, f"{JOBS}:validate"):
                response = await served.client.post(path, content=content, headers=HEADERS)
                assert problem(response) == expected, (name, response.text[:300])
                assert 400 <= response.status_code < 500
        assert (await served.client.get(JOBS)).json()["jobs"] == []
        await served.submit(job_name="смотри 🚀", request_json={"é": ["\U0001f600", 1e300, -(2**63)]})

    api(test)


def test_what_is_large_and_not_strange_is_accepted(api: Any) -> None:
    large = {
        "a text": '"' + "x" * 1_000_000 + '"',
        "a text of brackets and quotes": '"' + '[{\\\\\\"' * 100_000 + '"',
        "tokens": "[" + "31337," * 99_000 + "1]",
        "a vector": "[" + "0.123456789012345," * 55_000 + "1]",
        "records": "[" + '{"id": 1, "text": "abcdefgh"},' * 20_000 + "1]",
        "nested as deep as may be": "[" * 19 + "]" * 19,
        "escapes": '"' + "\\u00e9" * 170_000 + '"',
    }

    async def test(served: Served) -> None:
        for name, text in large.items():
            response = await served.client.post(JOBS, content=raw(text), headers=HEADERS)
            assert response.status_code == 201, (name, response.text[:300])
            assert response.json()["request_json"] == json.loads(text), name
        whole = container(
            env={f"V{n}": "x" * 100 for n in range(200)},
            container_command=["x" * 1000] * 200,
            volumes=[{"claim": f"c{n}", "path": f"/{n}"} for n in range(20)],
        )
        response = await served.client.post(JOBS, content=whole, headers=HEADERS | served.owner)
        assert response.status_code == 201, response.text[:300]

    api(test)


SLOW = {
    "brackets": b"[]",
    "open brackets": b"[",
    "pairs in arrays": b"[{},[]],",
    "strings": b'"",',
    "quotes": b'"',
    "escaped quotes": b'\\"',
    "backslashes": b"\\",
    "members": b'"a":1,',
    "strings of brackets": b'"[",',
    "numbers": b"1,",
    "deep pairs": b"[" * 18 + b"]" * 18,
}


@pytest.mark.parametrize("unit", SLOW.values(), ids=SLOW)
def test_the_shape_of_json_is_found_out_in_linear_time_without_a_parse(unit: bytes) -> None:
    def work(size: int) -> None:
        text = unit * (size // len(unit))
        for _ in range(10):
            with contextlib.suppress(json_bounds.TooDeep, json_bounds.TooMany):
                json_bounds.check(text)

    assert growth(work, (1 << 20) // FACTOR) < LINEAR


@given(
    st.recursive(
        st.none() | st.text(max_size=5),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner),
    ),
    st.integers(0, 24),
)
def test_the_depth_is_that_of_the_parsed_value(value: Any, around: int) -> None:
    for _ in range(around):
        value = [value]
    text = json.dumps(value, ensure_ascii=False).encode()

    def depth(value: Any) -> int:
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
        return 0 if inner is None else 1 + max(map(depth, inner), default=0)

    if depth(value) > json_bounds.DEEPEST:
        with pytest.raises(json_bounds.TooDeep):
            json_bounds.check(text)
    else:
        json_bounds.check(text)


def test_refused_bodies_are_not_kept(api: Any) -> None:
    """The exception of a validator is part of a circle that holds the body as it was parsed."""
    large = {name: [] for name in MANY}
    refused = {
        "unknown fields": json.dumps(large).encode(),
        "NUL": body(request_json=large | {"a": "\0"}),
        "a field": body(request_json=large, gpu_count="x"),
        "fields together": container(request_json=large),
    }

    async def test(served: Served) -> None:
        for name, sent in refused.items():
            await served.client.post(JOBS, content=sent, headers=HEADERS)
            gc.collect()
            gc.disable()
            try:
                before = len(gc.get_objects())
                for _ in range(3):
                    response = await served.client.post(JOBS, content=sent, headers=HEADERS)
                    assert problem(response) == "invalid-request"
                assert len(gc.get_objects()) - before < 20_000, name
            finally:
                gc.enable()

    api(test)


def test_an_array_is_refused_that_no_queue_takes(api: Any) -> None:
    async def test(served: Served) -> None:
        for fields, said in (
            ({"array": 21}, "array 21 is more than the 20 queued jobs that vision may have"),
            (
                {"array": 20, "request_json": ["x" * 900_000]},
                "keeps the whole request, 17 MiB in all, and 16",
            ),
        ):
            for path in (JOBS, f"{JOBS}:validate"):
                response = await served.client.post(path, content=body(**fields), headers=HEADERS)
                assert (response.status_code, problem(response)) == (422, "invalid-request")
                assert said in response.json()["detail"]
        assert len((await served.submit(array=20))["job_ids"]) == 20

    api(test, vision={"queued": 20})


def test_a_body_without_length_is_bounded_while_it_is_read(api: Any) -> None:
    read = 0

    async def test(served: Served) -> None:
        async def long() -> Any:
            nonlocal read
            for _ in range(100):
                read += 1
                yield b"x" * 65_536

        response = await served.client.post(JOBS, content=long(), headers=HEADERS)
        assert (response.status_code, problem(response)) == (413, "body-too-large")
        assert read <= 20

    api(test)


@pytest.mark.parametrize(
    ("method", "path", "status", "expected"),
    [
        ("GET", "/nothing", 404, "not-found"),
        ("GET", "/api/v1/gpu-jobs/", 404, "not-found"),
        ("DELETE", "/api/v1/gpu-jobs", 405, "method-not-allowed"),
        ("GET", "/api/v1/gpu-jobs/%00", 404, "not-found"),
        ("GET", "/api/v1/gpu-jobs/1", 404, "not-found"),
        ("GET", f"/api/v1/gpu-jobs/{'x' * 200}", 422, "invalid-request"),
        ("GET", "/api/v1/gpu-jobs?project=%00", 422, "invalid-request"),
        ("GET", "/api/v1/gpu-jobs?cursor=%00", 422, "invalid-request"),
        ("GET", "/api/v1/gpu-jobs?cursor=OTk5OQ", 422, "invalid-request"),
        ("GET", "/api/v1/tenants/vision/usage?since=0001-01-01T00:00:00%2B14:00", 422, "invalid-request"),
        ("GET", "/api/v1/tenants/vision/usage?until=0001-01-01T00:00:00Z", 200, ""),
        ("GET", "/api/v1/recommendations?memory_gib=nan", 422, "invalid-request"),
    ],
)
def test_other_addresses_and_parameters(api: Any, method: str, path: str, status: int, expected: str) -> None:
    async def test(served: Served) -> None:
        response = await served.client.request(method, path, headers={"X-Tenant-Id": "vision"})
        assert response.status_code == status, response.text
        if expected:
            assert problem(response) == expected
        if status == 405:
            assert "POST" in response.headers["allow"]

    api(test)


def test_another_media_type_is_refused(api: Any) -> None:
    async def test(served: Served) -> None:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            response = await served.client.post(
                JOBS, content=body(), headers=HEADERS | {"Content-Type": kind}
            )
            assert (response.status_code, problem(response)) == (415, "unsupported-media-type")

    api(test)


def test_an_error_of_the_queue_is_a_problem_without_its_cause(
    api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(served: Served) -> None:
        async def broken(*_: Any) -> None:
            raise RuntimeError("secret")

        monkeypatch.setattr("gpupool.queue.store.jobs.jobs", broken)
        with structlog.testing.capture_logs() as logged:
            response = await served.client.get(JOBS)
        assert (response.status_code, problem(response)) == (500, "internal")
        assert "secret" in str(logged[0]["exc_info"])
        assert "secret" not in response.text

        async def away(*_: Any) -> None:
            raise Unavailable("no route")

        monkeypatch.setattr("gpupool.queue.store.jobs.jobs", away)
        response = await served.client.get(JOBS)
        assert (response.status_code, problem(response), response.headers["retry-after"]) == (
            503,
            "unavailable",
            "5",
        )
        monkeypatch.setattr("gpupool.queue.store.jobs.answers", away)
        assert problem(await served.client.get("/readyz")) == "unavailable"
        assert (await served.client.get("/healthz")).status_code == 200

    api(test)


def test_a_full_queue_and_a_spent_budget_say_so(api: Any) -> None:
    async def test(served: Served) -> None:
        answers = await asyncio.gather(
            *(served.client.post(JOBS, content=body(), headers=HEADERS) for _ in range(4))
        )
        assert sorted(answer.status_code for answer in answers) == [201, 201, 201, 429]
        (full,) = [answer for answer in answers if answer.status_code == 429]
        assert (problem(full), full.headers["retry-after"]) == ("queue-full", "30")

    api(test, vision={"queued": 3})


def test_every_refusal_of_the_domain_is_a_type_of_the_table() -> None:
    import inspect
    import re

    named = set(re.findall(r'UnservableRequest\(\s*"([a-z-]+)"', inspect.getsource(offers)))
    assert len(named) >= 6
    assert named <= set(TYPES)


def test_the_page_of_problems_is_the_table() -> None:
    written = (LOCAL.parents[1] / "docs" / "queue-problems.md").read_text(encoding="utf-8")
    assert written == page(), "write it again: python -m gpupool.queue.api.problems > docs/queue-problems.md"
