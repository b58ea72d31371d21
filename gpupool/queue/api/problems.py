"""Every error of the API as a problem of RFC 9457; problems.yaml is the one table of their types.

docs/queue-problems.md shows the same table; a test compares them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import structlog
import yaml
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from gpupool.queue.api.requests import WANTED
from gpupool.queue.domain.offers import UnservableRequest
from gpupool.queue.records import JobState
from gpupool.queue.store.errors import (
    Conflict,
    IdempotencyMismatch,
    QueueFull,
    StoreError,
    Unavailable,
    Unknown,
    UnknownDependency,
)

TYPE_PREFIX = "https://gpupool.dev/problems/"
MEDIA_TYPE = "application/problem+json"
log = structlog.get_logger()


class ProblemType(NamedTuple):
    """One class of errors."""

    status: int
    title: str
    remediation: str
    """What the caller can do."""


TYPES: Mapping[str, ProblemType] = {
    name: ProblemType(**row)
    for name, row in yaml.safe_load(Path(__file__).with_name("problems.yaml").read_text("utf-8")).items()
}
"""Name -> type; the `type` of a problem is TYPE_PREFIX and the name."""

_BY_STATUS = {400: "invalid-json", 404: "not-found", 405: "method-not-allowed", 413: "body-too-large"}
_BY_STORE_ERROR: Mapping[type[StoreError], str] = {
    QueueFull: "queue-full",
    IdempotencyMismatch: "idempotency-mismatch",
    UnknownDependency: "no-such-dependency",
    Unknown: "not-found",
    Unavailable: "unavailable",
}
_WAIT_S = {"queue-full": "30"}
"""What Retry-After says where it is not 5 seconds."""


class ApiProblem(Exception):
    """An error that the API answers with. `more` holds further members, such as `errors` or `pools`."""

    def __init__(self, name: str, detail: str, headers: Mapping[str, str] | None = None, **more: Any) -> None:
        super().__init__(detail)
        self.name, self.detail, self.headers, self.more = name, detail, dict(headers or {}), more


def answer(problem: ApiProblem, path: str) -> Response:
    """The response that says `problem`."""
    kind = TYPES[problem.name]
    body = {
        "type": TYPE_PREFIX + problem.name,
        "title": kind.title,
        "status": kind.status,
        "detail": problem.detail,
        "instance": path,
        **problem.more,
    }
    headers = dict(problem.headers)
    if kind.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="gpupool"'
    if kind.status in (429, 503):
        headers.setdefault("Retry-After", _WAIT_S.get(problem.name, "5"))
    return JSONResponse(body, kind.status, headers, MEDIA_TYPE)


ERRORS = (ApiProblem, UnservableRequest, RequestValidationError, HTTPException, StoreError, Exception)
"""What an application must have handlers for, so that every error is answered with a problem."""


async def answer_error(request: Request, error: Exception) -> Response:
    """The response to a request that failed."""
    return answer(_problem_of(error, request.url.path), request.url.path)


def _problem_of(error: Exception, path: str) -> ApiProblem:
    if isinstance(error, ApiProblem):
        return error
    if isinstance(error, UnservableRequest):
        return ApiProblem(error.type, error.detail)
    if isinstance(error, RequestValidationError):
        return _of_validation(error)
    if isinstance(error, StoreError):
        return ApiProblem(_name_of(error), str(error))
    if isinstance(error, HTTPException):
        other = "internal" if error.status_code >= 500 else "invalid-request"
        return ApiProblem(_BY_STATUS.get(error.status_code, other), str(error.detail), error.headers)
    log.error("request.failed", path=path, exc_info=error)
    return ApiProblem("internal", "an unexpected error; the queue's log has it")


def _name_of(error: StoreError) -> str:
    if isinstance(error, Conflict):
        return "version-conflict" if error.state == JobState.QUEUED else "not-queued"
    names = (name for kind, name in _BY_STORE_ERROR.items() if isinstance(error, kind))
    return next(names, "invalid-request")


def _of_validation(error: RequestValidationError) -> ApiProblem:
    errors = error.errors()
    for row in errors:
        # A validator's exception knows the frames that called it, and these know the errors: a circle that
        # holds the body, as it was parsed, until the next look for circles (seldom: service.COLLECTED).
        if isinstance(cause := row.get("ctx", {}).get("error"), Exception):
            cause.__traceback__ = None
    if any(row["type"] == "json_invalid" for row in errors):
        return ApiProblem("invalid-json", f"the body is not JSON: {errors[0]['ctx']['error']}")
    listed = _field_errors(errors)
    first = f"{listed[0]['pointer']}: {listed[0]['detail']}"
    return ApiProblem("invalid-request", first, errors=listed)


def _field_errors(errors: Sequence[Any]) -> list[dict[str, str]]:
    """pydantic's errors with the place of each as a JSON pointer, or as a header's or parameter's name."""
    listed = []
    for error in errors[:20]:
        place, *path = error["loc"]
        pointer = "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)
        where = f"#{pointer}" if place == "body" else f"{place} {'.'.join(str(part) for part in path)}"
        listed.append({"pointer": _printable(where), "detail": _printable(_detail(error))})
    return listed


def _detail(error: Mapping[str, Any]) -> str:
    """What is wrong with a field, in words."""
    if error["type"] == "string_pattern_mismatch":
        return f"write {WANTED[error['ctx']['pattern']]}"
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])  # pydantic puts two words before it
    return str(error["msg"])


def _printable(text: str) -> str:
    """Fit for UTF-8, whatever a caller has put into a name, and not long."""
    return text[:300].encode("utf-8", "backslashreplace").decode()


def page() -> str:
    """docs/queue-problems.md."""
    rows = [
        f"| `{name}` | {kind.status} | {kind.title} | {kind.remediation} |"
        for name, kind in sorted(TYPES.items())
    ]
    return _PAGE + "\n".join(rows) + "\n"


_PAGE = f"""# Problems of the queue's API

Every error of the API is a problem of RFC 9457 (`{MEDIA_TYPE}`). Its `type` is
`{TYPE_PREFIX}` and a name of this table, its `detail` says what was wrong in this request. Fields
that can't be used are listed in `errors`, each with a JSON pointer.

| name | status | title | what to do |
|---|---|---|---|
"""


if __name__ == "__main__":
    print(page(), end="")
