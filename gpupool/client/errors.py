"""What can go wrong when the queue is asked for something.

    GpupoolClientError      anything below
      TransportError        no answer: no connection, or it broke
        NotSent             the address, the key or a value can't be sent as it is
      WaitTimeout           a job has not ended in the time that `wait` was given
      ApiError              the queue answered with a problem (RFC 9457)
        Invalid             the request has fields that can't be used (400, 413, 415, 422)
        Unauthenticated     no valid credential (401)
        Forbidden           the credential does not grant it (403)
        NotFound            nothing is there, or it is another tenant's (404)
        Conflict            the job is in another state or version (409, 412)
        Gone                the events after this position were pruned (410)
        LimitExceeded       a limit of the tenant, or too many requests
        BudgetExceeded      the budget is spent, or never suffices for the job

This module must not send or retry anything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_LONGEST = 300


class GpupoolClientError(Exception):
    """Anything that the client raises of itself."""


class TransportError(GpupoolClientError):
    """The queue did not answer. Whether the request took effect is unknown, but for one that is retried."""


class NotSent(TransportError):
    """The address, the key or a value can't be sent as it is; nothing was."""


class WaitTimeout(GpupoolClientError, TimeoutError):
    """The job has not ended in time; it goes on."""


class ApiError(GpupoolClientError):
    """The queue answered with a problem."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status = status
        self.problem = dict(problem)
        """The whole problem as it was sent."""
        self.type = str(problem.get("type", "")).rpartition("/")[2]
        """Name of the problem's type, such as `queue-full` (docs/queue-problems.md)."""
        self.title = str(problem.get("title", "") or f"HTTP {status}")
        self.detail = str(problem.get("detail", ""))
        self.errors = tuple(problem.get("errors") or ())
        """The fields that can't be used, each with `pointer` and `detail`."""
        super().__init__(f"{self.title}: {self.detail}" if self.detail else self.title)


class Invalid(ApiError):
    """The request has fields that can't be used."""


class Unauthenticated(ApiError):
    """There is no valid credential."""


class Forbidden(ApiError):
    """The credential does not grant this."""


class NotFound(ApiError):
    """Nothing is there, or it is another tenant's."""


class Conflict(ApiError):
    """The job is in another state or version."""


class Gone(ApiError):
    """The events after this position were pruned."""


class LimitExceeded(ApiError):
    """A limit of the tenant is reached, or there were too many requests."""


class BudgetExceeded(ApiError):
    """The budget is spent, or never suffices for the job."""


_BY_TYPE: Mapping[str, type[ApiError]] = {
    "queue-full": LimitExceeded,
    "rate-limited": LimitExceeded,
    "gpus-per-job": LimitExceeded,
    "budget-exhausted": BudgetExceeded,
    "never-affordable": BudgetExceeded,
}
_BY_STATUS: Mapping[int, type[ApiError]] = {
    400: Invalid,
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    412: Conflict,
    413: Invalid,
    415: Invalid,
    422: Invalid,
    429: LimitExceeded,
}


def error_of(status: int, content: bytes) -> ApiError:
    """The error for an answer that is none: a problem, or whatever a proxy sent in its place."""
    try:
        problem = json.loads(content)
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        text = " ".join(content[:_LONGEST].decode("utf-8", "replace").split())
        problem = {"title": f"HTTP {status}", "status": status, "detail": text}
    name = str(problem.get("type", "")).rpartition("/")[2]
    return _BY_TYPE.get(name, _BY_STATUS.get(status, ApiError))(status, problem)
