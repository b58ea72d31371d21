"""What is wrong about the queue itself, said with each answer: a file that is refused, processes that differ.

Operators see all of it; others see that it is so, and by which Plan the queue goes on. This module must not
find out what is wrong: `gpupool.queue.plan_source` does.
"""

from __future__ import annotations

from starlette.types import Scope

from gpupool.queue.api.context import RequestContext
from gpupool.queue.records import Principal

HEADER = b"gpupool-notice"
"""A sentence; there may be several of it."""


def operates(context: RequestContext, caller: Principal) -> bool:
    """Whether the caller runs this queue."""
    return context.dev or caller.may("admin")


def headers(context: RequestContext, scope: Scope) -> list[tuple[bytes, bytes]]:
    """The notices for who has sent the request, in ASCII; none for who is not known."""
    caller: Principal | None = scope.get("state", {}).get("caller")
    if caller is None:
        return []
    notices = context.plan_state().notices(whole=operates(context, caller))
    return [(HEADER, _printable(notice).encode("ascii", "backslashreplace")) for notice in notices]


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)
