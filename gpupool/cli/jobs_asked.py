"""Asking the queue for `gpupool jobs`: a client whose errors become messages.

The API speaks of headers and of fields of JSON, while people have typed options: messages name these. What
the queue says of itself goes to stderr. This module must not print anything else, or know any one operation.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gpupool.findings import GpupoolError, UsageError

if TYPE_CHECKING:
    from gpupool.client import ApiError, Client

Given = Mapping[str, tuple[str, Any]]
"""Field of the request -> the option for it, and its value; None where it is not given."""

_OPTIONS = {"x-tenant-id": "--tenant or GPUPOOL_TENANT", "idempotency-key": "--idempotency-key", "id": "JOB"}
"""For what is in no body. Parameters of the query are called as their options."""
_WORDS = {"priority", "array", "retries", "preemptible", "id"}
"""Names that are ordinary words in a sentence."""


@contextmanager
def asked(
    server: str | None, tenant: str | None, given: Given | None = None, patient: bool = False
) -> Iterator[Client]:
    """A client; what it raises becomes a message. A `patient` one outlives a restart of the queue."""
    from gpupool.client import ApiError, Client, GpupoolClientError, NotFound, NotSent

    try:
        with Client(server, tenant=tenant, retry_for=60.0 if patient else 3.0) as client:
            try:
                yield client
            finally:
                for notice in client.notices:
                    print(f"gpupool: {notice}", file=sys.stderr)
    except NotFound as error:
        raise UsageError(str(error)) from error
    except NotSent as error:
        raise UsageError(_with_options(str(error), given or {})) from error
    except ApiError as error:
        raise GpupoolError(message(error, given or {})) from error
    except GpupoolClientError as error:
        raise GpupoolError(f"{error}; start the queue with `gpupool serve`, or set GPUPOOL_URL") from error


def message(error: ApiError, given: Given) -> str:
    """What the queue answered, with the options in place of the API's names."""
    rows = [_row(str(one.get("pointer")), str(one.get("detail")), given) for one in error.errors]
    if error.type == "invalid-request":  # its title speaks of fields
        lines = rows or [error.detail]
    else:
        lines = [str(error), *(f"  {row}" for row in rows[1:])]
    if error.type == "unauthenticated":
        lines[0] += "; set GPUPOOL_KEY to a valid API key or token"
    return _with_options("\n".join(lines), given)


def _with_options(text: str, given: Given) -> str:
    options = _OPTIONS | {name: option for name, (option, _) in given.items()}
    names = "|".join(options.keys() - _WORDS)
    # Not within a value, which is in quotes, or in a path.
    return re.sub(rf"(?<![\w./'-])(?:{names})\b", lambda name: options[name[0].lower()], text, flags=re.I)


def _row(pointer: str, detail: str, given: Given) -> str:
    """One error; the pointer is `#/env/A`, `query state.0` or `header x-tenant-id`, and `#` for the whole."""
    detail = detail.removeprefix("Value error, ")
    found = re.match(r"(?:#/|query |header |path )([^/.]+)(?:/([^/]+))?", pointer)
    if not found:
        return detail
    name, part = found.groups()
    option, value = given.get(name, (_OPTIONS.get(name, f"--{name}"), None))
    said = value if isinstance(value, str | int | float) else part  # of variables no value: it may be secret
    return f"{option}: {detail}" if said is None else f"{option} {said!r}: {detail}"
