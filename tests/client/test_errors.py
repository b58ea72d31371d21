"""Which error an answer becomes."""

from __future__ import annotations

import json
import pickle

import pytest

from gpupool.client import errors

PREFIX = "https://gpupool.dev/problems/"


@pytest.mark.parametrize(
    ("status", "name", "kind"),
    [
        (400, "invalid-json", errors.Invalid),
        (401, "unauthenticated", errors.Unauthenticated),
        (403, "tenant-not-granted", errors.Forbidden),
        (404, "not-found", errors.NotFound),
        (409, "not-queued", errors.Conflict),
        (410, "events-pruned", errors.Gone),
        (412, "version-conflict", errors.Conflict),
        (422, "invalid-request", errors.Invalid),
        (422, "budget-exhausted", errors.BudgetExceeded),
        (422, "never-affordable", errors.BudgetExceeded),
        (422, "gpus-per-job", errors.LimitExceeded),
        (429, "queue-full", errors.LimitExceeded),
        (429, "anything-new", errors.LimitExceeded),
        (503, "unavailable", errors.ApiError),
        (500, "internal", errors.ApiError),
    ],
)
def test_problems_become_errors(status: int, name: str, kind: type[errors.ApiError]) -> None:
    problem = {"type": PREFIX + name, "title": "T", "detail": "d", "status": status, "errors": [{"a": 1}]}
    error = errors.error_of(status, json.dumps(problem).encode())
    assert type(error) is kind
    assert (error.status, error.type, str(error), error.problem) == (status, name, "T: d", problem)
    assert error.errors == ({"a": 1},)
    assert isinstance(error, errors.GpupoolClientError)


def test_texts_of_others_are_obeyed_by_no_terminal_and_show_no_password() -> None:
    detail = "\x1b]0;owned\x07 \x9b2J \u202e wörter\nsecond"
    error = errors.error_of(422, json.dumps({"type": PREFIX + "x", "title": "T", "detail": detail}).encode())
    assert str(error) == "T: \\x1b]0;owned\\x07 \\x9b2J \\u202e wörter\nsecond"
    assert error.detail == detail, "programs get it as it is"
    assert "\x1b" not in repr(error)
    page = errors.error_of(502, b"<a href='https://ada:secret@queue/x'>")
    assert "secret" not in str(page)
    assert "queue/x" in str(page)


def test_errors_can_be_sent_between_processes() -> None:
    lost = errors.NotReached("no answer")
    lost.refused, lost.idempotency_key = True, "k"
    found = errors.error_of(503, b"x")
    found.idempotency_key = "k"
    for error in (lost, found, errors.WaitTimeout("x"), errors.NotSent("x")):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize("content", [b"<html>\n Bad   gateway", b"[1]", b"", b"\xff"])
def test_what_a_proxy_says_is_shown(content: bytes) -> None:
    error = errors.error_of(502, content)
    assert type(error) is errors.ApiError
    assert str(error).startswith("HTTP 502")
    assert (error.type, error.errors) == ("", ())
