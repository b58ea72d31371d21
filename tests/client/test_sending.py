"""When a request is sent again, and for whom it is sent."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest

from gpupool.client import LostContact, NotReached, NotSent, TransportError, operations
from gpupool.client.operations import Call
from gpupool.client.sending import Retries, built, error_for, half, may_repeat, parsed, pause_asked
from gpupool.client.settings import Settings

SUBMIT = operations.submit({}, "k")
ONCE = operations.set_priority("j", "low", 1)
AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("failure", "repeatable", "once"),
    [
        (httpx2.ConnectError("x"), True, True),
        (httpx2.ConnectTimeout("x"), True, True),
        (httpx2.RemoteProtocolError("x"), True, False),
        (httpx2.ReadError("x"), True, False),
        (httpx2.ReadTimeout("x"), True, False),
        (httpx2.WriteTimeout("x"), True, False),
        (httpx2.DecodingError("x"), True, False),
        (httpx2.ProxyError("x"), True, True),
        (httpx2.Response(408), True, False),
        (httpx2.Response(524), True, False),
        (httpx2.UnsupportedProtocol("x"), False, False),
        (httpx2.Response(429), True, True),
        (httpx2.Response(502), True, False),
        (httpx2.Response(503), True, False),
        (httpx2.Response(504), True, False),
        (httpx2.Response(500), False, False),
        (httpx2.Response(404), False, False),
    ],
    ids=repr,
)
def test_what_is_sent_again(failure: Any, repeatable: bool, once: bool) -> None:
    assert may_repeat(SUBMIT, failure) is repeatable
    assert may_repeat(ONCE, failure) is once


def test_pauses_grow_and_end_in_time() -> None:
    retries = Retries(SUBMIT, Settings(retry_s=60))
    pauses = []
    while (pause := retries.pause(httpx2.ConnectError("x"))) is not None:
        pauses.append(pause)
    assert sum(pauses) == pytest.approx(60)
    assert max(pauses) <= 10
    assert pauses[0] <= 0.2
    assert Retries(SUBMIT, Settings(retry_s=0)).pause(httpx2.ConnectError("x")) is None


def test_retry_after_is_kept_to_or_the_request_given_up() -> None:
    retries = Retries(SUBMIT, Settings(retry_s=60))
    assert retries.pause(httpx2.Response(429, headers={"Retry-After": "30"})) == 30
    assert retries.pause(httpx2.Response(429, headers={"Retry-After": "31"})) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5", 5),
        ("Sun, 01 Mar 2026 12:00:07 GMT", 7),
        ("Sun, 01 Mar 2026 11:00:00 GMT", 0),
        ("soon", 0),
        ("-1", 0),
        ("²", 0),
    ],
)
def test_retry_after_is_a_number_or_a_date(text: str, seconds: float) -> None:
    assert pause_asked({"Retry-After": text}, AT) == seconds


def test_settings_come_from_arguments_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("URL", "KEY", "TENANT"):
        monkeypatch.delenv(f"GPUPOOL_{name}", raising=False)
    plain = Settings().options(None)
    assert (plain["base_url"], plain["trust_env"]) == ("http://localhost:8021", False)
    assert "Authorization" not in plain["headers"]
    monkeypatch.setenv("GPUPOOL_URL", "https://queue.example.com")
    monkeypatch.setenv("GPUPOOL_KEY", "gpk_1")
    monkeypatch.setenv("GPUPOOL_TENANT", "vision")
    found = Settings(tenant="serving", user="ada").options(None)
    assert (found["base_url"], found["trust_env"]) == ("https://queue.example.com", True)
    headers = found["headers"]
    assert (headers["Authorization"], headers["X-Tenant-Id"], headers["X-User-Id"]) == (
        "Bearer gpk_1",
        "serving",
        "ada",
    )
    assert "secret" not in repr(Settings(key="secret"))


@pytest.mark.parametrize(
    "url",
    [
        "localhost:8021",
        "ftp://x",
        "http://",
        "x",
        "http://[::1",
        "http://a:abc",
        "http://a:99999",
        "http://\0",
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(NotSent, match="not an address"):
        Settings(url).options(None)


def test_a_key_is_read_without_the_line_break_of_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUPOOL_URL", "http://queue.example\n")
    monkeypatch.setenv("GPUPOOL_KEY", "gpk_1\n")
    monkeypatch.setenv("GPUPOOL_TENANT", " vision\r\n")
    found = Settings().options(None)
    headers = found["headers"]
    assert found["base_url"] == "http://queue.example"
    assert (headers["Authorization"], headers["X-Tenant-Id"]) == ("Bearer gpk_1", "vision")
    assert "Authorization" not in Settings(key=" \n").options(None)["headers"]


@pytest.mark.parametrize("key", ["gpk_1\ngpk_2", "gpk_ü1", "gpk_\x7f1"])
def test_a_key_that_no_header_can_have_is_refused_without_its_value(key: str) -> None:
    with pytest.raises(NotSent, match=r"the key has .*; copy it again, and .* GPUPOOL_KEY") as error:
        Settings(key=key).options(None)
    assert "gpk" not in str(error.value)
    assert error.value.__context__ is None


def test_a_name_that_no_header_can_have_is_refused() -> None:
    with pytest.raises(NotSent, match=r"tenant 'süd'.*GPUPOOL_TENANT"):
        Settings(tenant="süd").options(None)
    with pytest.raises(NotSent, match="user 'süd'"):
        Settings(user="süd").options(None)


@pytest.mark.parametrize(
    "call",
    [
        operations.submit({"budget_limit_usd": float("nan")}, "k"),
        operations.submit({"job_name": "\udcff"}, "k"),
        operations.submit({}, "schlüssel"),
        operations.submit({}, "a\nb"),
        operations.jobs(user="\udcff"),
    ],
    ids=["no number", "no text", "no header", "two lines", "no query"],
)
def test_what_can_not_be_sent_is_said_before(call: Call[Any]) -> None:
    with pytest.raises(NotSent, match=rf"^{call.method} {call.path}: "):
        built(httpx2.Client(base_url="http://queue"), call, None)


@pytest.mark.parametrize(
    ("headers", "content", "broken"),
    [
        ({}, b'{"a": 1', True),
        ({}, b'{"a": 1}', False),
        ({"Content-Length": "7"}, b'{"a": 1', False),
        ({"Transfer-Encoding": "chunked"}, b"<html>", False),
    ],
)
def test_an_answer_of_unknown_length_may_be_half_of_one(
    headers: dict[str, str], content: bytes, broken: bool
) -> None:
    response = httpx2.Response(200, headers=headers, stream=httpx2.ByteStream(content))
    response.read()
    assert (half(response) is not None) is broken


def test_an_answer_at_another_address_names_it_without_its_password() -> None:
    moved = httpx2.Response(308, headers={"Location": "https://ada:secret@queue.example/api"})
    error = error_for(SUBMIT, moved, Settings("http://queue"), 1)
    assert str(error).startswith("HTTP 308: the queue is at another address, https://...@queue.example/api; ")
    assert (error.idempotency_key, error.no_answer) == ("k", False)


def test_an_error_says_what_was_asked_and_for_how_long() -> None:
    settings = Settings("https://ada:secret@queue.example:1")
    error = error_for(SUBMIT, httpx2.ReadTimeout(""), settings, 61.2)
    assert type(error) is LostContact
    assert str(error) == (
        "POST /api/v1/gpu-jobs: no answer from the queue: nothing came in time; https://queue.example:1 was "
        "asked for 61 s"
    )
    later = error_for(SUBMIT, httpx2.ConnectError("refused"), settings, 61.2, sent=True)
    assert type(later) is LostContact, "the first try may have made the job"
    assert error_for(SUBMIT, httpx2.Response(429), settings, 61, sent=True).no_answer
    assert not error_for(SUBMIT, httpx2.Response(422), settings, 61, sent=True).no_answer
    never = error_for(SUBMIT, httpx2.ConnectError("\x1b[2J"), settings, 0)
    assert type(never) is NotReached
    assert (never.refused, never.loopback, never.address) == (False, False, "https://queue.example:1")
    assert "\x1b" not in str(never)


def test_a_project_is_that_of_jobs_that_name_none() -> None:
    settings = Settings(project="ocr")
    assert settings.with_project({"job_name": "a"}) == {"project_id": "ocr", "job_name": "a"}
    assert settings.with_project({"project_id": "b"}) == {"project_id": "b"}


@pytest.mark.parametrize("content", [b"<html>", b"[]", b"{}", b'{"jobs": 3}'])
def test_an_answer_of_something_else_is_an_error(content: bytes) -> None:
    with pytest.raises(TransportError, match="not one of the queue's"):
        parsed(operations.jobs(), httpx2.Response(200, content=content))
