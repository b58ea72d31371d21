"""Errors of the client.

GpupoolClientError      anything below
  TransportError        what came is no answer of the queue
    NotSent             the address, the key or a value can't be sent as it is
    LostContact         no answer, for as long as the queue was asked again
      NotReached        there was no connection: nothing was sent
  WaitTimeout           a job has not ended in the time that `wait` was given
  ApiError              the queue answered with a problem (RFC 9457)
    Invalid             the request has invalid fields (400, 413, 415, 422)
    Unauthenticated     no valid credential (401)
    Forbidden           the credential does not grant it (403)
    NotFound            nothing is there, or it is another tenant's (404)
    Conflict            the job is in another state or version (409, 412)
    Gone                the events after this position were pruned (410)
    LimitExceeded       a limit of the tenant, or too many requests
    BudgetExceeded      the budget is spent, or never suffices for the job
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_LONGEST = 300
AT = "@|\uff20|\ufe6b|%40"
"""What ends a user and a password in an address; others are in addresses that were written wrong."""
_USER = re.compile(rf"(?<=//)[^/\s]*(?:{AT})", re.IGNORECASE)


def shown(text: str) -> str:
    """`text` with escapes for what a terminal would obey, and for other characters that can't be printed."""
    return "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode("ascii") for c in text
    )


def without_users(text: str) -> str:
    """`text` without what may be a user and a password in its addresses."""
    return _USER.sub("...@", text)


class GpupoolClientError(Exception):
    """Base of all errors that the client raises. Control characters in its text are escaped, because
    tracebacks go to terminals and notebooks."""

    idempotency_key: str | None = None
    """Key of the failed submission: `Client.jobs(idempotency_key=...)` lists the jobs that it created after
    all, and repeating the submission with it creates no second job."""
    no_answer: bool = False
    """Whether the queue did not answer. The request may have taken effect, unless this is NotReached."""

    def __init__(self, message: str) -> None:
        super().__init__(shown(message))


class TransportError(GpupoolClientError):
    """The response is not an answer of the queue."""


class NotSent(TransportError):
    """The address, the key or a value is invalid; nothing was sent."""


class LostContact(TransportError):
    """The queue did not answer until retries timed out. The request may have taken effect; jobs continue."""

    no_answer = True
    address: str = ""
    """Scheme, host and port of the queue."""


class NotReached(LostContact):
    """The connection to the queue failed; nothing was sent."""

    refused: bool = False
    """Whether the connection was refused."""
    loopback: bool = False
    """Whether the address is one of this machine."""


class WaitTimeout(GpupoolClientError, TimeoutError):
    """The job did not end before the timeout; it continues."""


class ApiError(GpupoolClientError):
    """The queue answered with a problem."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status = status
        self.problem = dict(problem)
        """The complete problem object (RFC 9457)."""
        self.type = str(problem.get("type", "")).rpartition("/")[2]
        """Name of the problem's type, such as `queue-full` (docs/queue-problems.md)."""
        self.title = str(problem.get("title", "") or f"HTTP {status}")
        self.detail = str(problem.get("detail", ""))
        self.errors = tuple(problem.get("errors") or ())
        """The invalid fields, each with `pointer` and `detail`."""
        self.no_answer = status == 408 or status >= 500
        super().__init__(f"{self.title}: {self.detail}" if self.detail else self.title)

    def __reduce__(self) -> tuple[Any, ...]:
        """As pickle needs it: worker processes send their errors to their parent."""
        return type(self), (self.status, self.problem), vars(self)


class Invalid(ApiError):
    """The request has invalid fields."""


class Unauthenticated(ApiError):
    """There is no valid credential."""


class Forbidden(ApiError):
    """The credential does not grant this."""


class NotFound(ApiError):
    """The object does not exist, or belongs to another tenant."""


class Conflict(ApiError):
    """The job is in another state or version."""


class Gone(ApiError):
    """The events after this position were pruned."""


class LimitExceeded(ApiError):
    """A limit of the tenant is reached, or there were too many requests."""


class BudgetExceeded(ApiError):
    """The budget is spent, or is less than the job may cost."""


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
        text = without_users(" ".join(content[:_LONGEST].decode("utf-8", "replace").split()))
        problem = {"title": f"HTTP {status}", "status": status, "detail": text}
    name = str(problem.get("type", "")).rpartition("/")[2]
    return _BY_TYPE.get(name, _BY_STATUS.get(status, ApiError))(status, problem)
