"""Every error of the API as a problem of RFC 9457, and the one table of their types.

docs/queue-problems.md shows the same table; a test compares them. This module must not know any operation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from gpupool.queue.store.errors import Conflict, IdempotencyMismatch, QueueFull, StoreError, Unavailable

TYPE_PREFIX = "https://gpupool.dev/problems/"
MEDIA_TYPE = "application/problem+json"
log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ProblemType:
    """One class of errors."""

    status: int
    title: str
    remedy: str
    """What the caller can do."""


TYPES: Mapping[str, ProblemType] = {
    "invalid-request": ProblemType(
        422, "The request has fields that can't be used", "Correct the fields that `errors` lists."
    ),
    "invalid-json": ProblemType(400, "The body is not JSON", "Send one JSON object in UTF-8."),
    "json-too-deep": ProblemType(
        422, "The JSON is nested too deep", "Nest objects and arrays at most 20 deep."
    ),
    "body-too-large": ProblemType(
        413, "The body is too large", "Send at most 1 MiB; put large inputs into object storage."
    ),
    "unsupported-media-type": ProblemType(
        415, "The body has another media type", "Send Content-Type: application/json."
    ),
    "unauthenticated": ProblemType(
        401,
        "No valid credential",
        "Send an API key or a token that is still valid as Authorization: Bearer, or the key as X-Api-Key.",
    ),
    "insufficient-scope": ProblemType(
        403, "The credential lacks a scope", "Use a credential with the scope that `detail` names."
    ),
    "tenant-required": ProblemType(
        400, "The request names no tenant", "Name one of the credential's tenants in X-Tenant-Id."
    ),
    "tenant-not-granted": ProblemType(
        403, "The credential does not act for this tenant", "Name one of its own tenants in X-Tenant-Id."
    ),
    "project-not-granted": ProblemType(
        403,
        "The tenant has no such project",
        "Name one of the tenant's projects, or add it to its `projects`.",
    ),
    "user-not-granted": ProblemType(
        403,
        "The credential does not stand for this user",
        "Leave out X-User-Id, or use an API key with the scope users:any.",
    ),
    "priority-not-granted": ProblemType(
        403,
        "The priority is above the tenant's",
        "Use a lower priority, or raise the tenant's `maxPriority`.",
    ),
    "target-not-allowed": ProblemType(
        422,
        "The address is not an allowed target",
        "Use an origin that `queue.targets` of the environment file lists.",
    ),
    "pool-not-found": ProblemType(
        422,
        "No pool is called or made like this",
        "Use a pool, GPU or MIG profile that GET /api/v1/pools lists.",
    ),
    "pool-not-granted": ProblemType(
        422, "The tenant may not use such a pool", "Use a granted pool, or extend the tenant's `pools`."
    ),
    "does-not-fit": ProblemType(
        422, "The tenant's grant is too small for the job", "Ask for less, or extend the tenant's `pools`."
    ),
    "exclusive-not-possible": ProblemType(
        422,
        "The pool can't give a job a GPU of its own",
        "Use one of the pools that `detail` names, or `auto`.",
    ),
    "gpus-not-possible": ProblemType(
        422,
        "The pool can't give one job so many GPUs",
        "Use one of the pools that `detail` names, or fewer GPUs.",
    ),
    "gpus-per-job": ProblemType(
        422,
        "The job asks for more GPUs than the tenant may use",
        "Ask for fewer, or raise `limits.gpusPerJob`.",
    ),
    "budget-exhausted": ProblemType(
        422, "The budget is spent", "Wait for the next period, or raise the budget."
    ),
    "no-such-dependency": ProblemType(
        422, "The job to wait for does not exist", "Name a job of the same tenant in depends_on."
    ),
    "queue-full": ProblemType(
        429, "The tenant has as many queued jobs as it may", "Try again later; `Retry-After` says when."
    ),
    "form-not-accepted": ProblemType(
        403, "The form was not accepted", "Open the page again and send the form from there."
    ),
    "rate-limited": ProblemType(
        429, "Too many requests", "Try again after the seconds that `Retry-After` gives."
    ),
    "idempotency-mismatch": ProblemType(
        422, "The Idempotency-Key was used for another request", "Use a new key for a new request."
    ),
    "not-found": ProblemType(
        404, "Nothing is here", "Check the address; jobs of other tenants aren't shown."
    ),
    "no-result": ProblemType(
        404, "The job has no result", "Read the result of an HTTP job after it has ended."
    ),
    "method-not-allowed": ProblemType(
        405, "The address has no such method", "Use one of the methods that `Allow` lists."
    ),
    "not-queued": ProblemType(
        409, "The job is no longer queued", "Priorities change while a job waits; cancel it and submit again."
    ),
    "version-conflict": ProblemType(
        412, "The job has changed", "Read the job again and send its present ETag in If-Match."
    ),
    "events-pruned": ProblemType(
        410,
        "The events after this one are gone",
        "List the jobs again and follow events without Last-Event-ID.",
    ),
    "unavailable": ProblemType(
        503,
        "The queue, its database or its cluster is not available",
        "Try again; `Retry-After` says when. Nothing was lost.",
    ),
    "internal": ProblemType(
        500, "An error in the queue", "Report it with the time and the address; the log has its cause."
    ),
}
"""Name -> type; the `type` of a problem is TYPE_PREFIX and the name."""

_BY_STATUS = {400: "invalid-json", 404: "not-found", 405: "method-not-allowed", 413: "body-too-large"}


class Problem(Exception):
    """An error that the API answers with. `more` holds further members, such as `errors` or `pools`."""

    def __init__(self, name: str, detail: str, headers: Mapping[str, str] | None = None, **more: Any) -> None:
        super().__init__(detail)
        self.name, self.detail, self.headers, self.more = name, detail, dict(headers or {}), more


def answer(problem: Problem, path: str) -> Response:
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
        headers.setdefault("Retry-After", "5")
    return JSONResponse(body, kind.status, headers, MEDIA_TYPE)


def _field_errors(errors: Sequence[Any]) -> list[dict[str, str]]:
    """pydantic's errors with the place of each as a JSON pointer, or as a header's or parameter's name."""
    listed = []
    for error in errors[:20]:
        place, *path = error["loc"]
        pointer = "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)
        where = f"#{pointer}" if place == "body" else f"{place} {'.'.join(str(part) for part in path)}"
        listed.append({"pointer": _printable(where), "detail": _printable(error["msg"])})
    return listed


def _printable(text: str) -> str:
    """Fit for UTF-8, whatever a caller has put into a name, and not long."""
    return text[:300].encode("utf-8", "backslashreplace").decode()


def _of_validation(error: RequestValidationError) -> Problem:
    errors = error.errors()
    if any(row["type"] == "json_invalid" for row in errors):
        return Problem("invalid-json", f"the body is not JSON: {errors[0]['ctx']['error']}")
    listed = _field_errors(errors)
    first = f"{listed[0]['pointer']}: {listed[0]['detail']}"
    return Problem("invalid-request", first, errors=listed)


def _of_store(error: Exception) -> Problem:
    if isinstance(error, QueueFull):
        return Problem("queue-full", str(error), {"Retry-After": "30"})
    if isinstance(error, IdempotencyMismatch):
        return Problem("idempotency-mismatch", str(error))
    if isinstance(error, Conflict):
        return Problem("version-conflict", str(error))
    return Problem("unavailable" if isinstance(error, Unavailable) else "invalid-request", str(error))


def problems_of(app: FastAPI) -> None:
    """Make `app` answer every error with a problem."""

    def on_problem(request: Request, error: Exception) -> Response:
        assert isinstance(error, Problem)
        return answer(error, request.url.path)

    def on_validation(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return answer(_of_validation(error), request.url.path)

    def on_store(request: Request, error: Exception) -> Response:
        return answer(_of_store(error), request.url.path)

    def on_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        name = _BY_STATUS.get(
            error.status_code, "internal" if error.status_code >= 500 else "invalid-request"
        )
        return answer(Problem(name, str(error.detail), error.headers), request.url.path)

    def on_error(request: Request, error: Exception) -> Response:
        log.error("request.failed", path=request.url.path, exc_info=error)
        return answer(Problem("internal", "an unexpected error; the queue's log has it"), request.url.path)

    app.add_exception_handler(Problem, on_problem)
    app.add_exception_handler(RequestValidationError, on_validation)
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(StoreError, on_store)
    app.add_exception_handler(Exception, on_error)


def page() -> str:
    """docs/queue-problems.md."""
    rows = [
        f"| `{name}` | {kind.status} | {kind.title} | {kind.remedy} |" for name, kind in sorted(TYPES.items())
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
