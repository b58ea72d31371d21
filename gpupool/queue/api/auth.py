"""Who a request comes from: an API key, a token of a pod or of the OIDC provider, or, with `--dev` on
loopback alone, no credential.

What a credential grants is the Principal; `X-` headers choose among it later (`gpupool.queue.api.accept`).
This module must not read any header but Authorization and X-Api-Key.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Request

from gpupool.queue.api.context import Context, present
from gpupool.queue.api.credentials import KEY_PREFIX, Rejected, Unverifiable
from gpupool.queue.api.forwarded import client_address
from gpupool.queue.api.problems import Problem
from gpupool.queue.records import Principal

ALL_SCOPES = frozenset({"jobs:read", "jobs:write", "usage:read", "users:any", "admin"})
_LONGEST = 16_384

SCHEMES = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key (gpk_...), a pod's token, or one of the OIDC provider.",
    },
    "key": {"type": "apiKey", "in": "header", "name": "X-Api-Key", "description": "An API key (gpk_...)."},
}
"""How the OpenAPI document says it. FastAPI's own classes would look at each request a second time."""


async def _principal(context: Context, request: Request) -> Principal:
    credential = request.headers.get("x-api-key", "")
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    if not credential and scheme.lower() == "bearer":
        credential = value.strip()
    if not credential:
        return _without_credential(context, request)
    if len(credential) > _LONGEST or not credential.isascii() or not credential.isprintable():
        raise Rejected("the credential is no key and no token")
    if credential.startswith(KEY_PREFIX):
        return await context.keys.verify(credential, context.clock())
    plan = context.plan()
    pod = await context.pods.verify(credential, plan, context.now()) if context.pods else None
    return pod or await context.oidc.verify(credential, plan, context.now())


def _without_credential(context: Context, request: Request) -> Principal:
    if not context.dev:
        raise Rejected("the request has no credential")
    if not _loopback(request) or "x-forwarded-for" in request.headers or "forwarded" in request.headers:
        raise Rejected("requests without a credential are for loopback alone")
    if request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        raise Rejected("pages of other sites need a credential")
    return Principal("dev", frozenset("*"), ALL_SCOPES, "dev")


def _loopback(request: Request) -> bool:
    """Whether the client is this machine, and asks for it by a local name: a page of another origin whose
    name was pointed at 127.0.0.1 (DNS rebinding) does not."""
    if request.client is None or request.url.hostname not in ("localhost", "127.0.0.1", "::1"):
        return False
    try:
        return ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False


async def principal(
    context: Annotated[Context, Depends(present)],
    request: Request,
) -> Principal:
    """The verified caller of a request, within its rate."""
    return await caller_of(context, request)


async def caller_of(context: Context, request: Request) -> Principal:
    """The same, found out and counted once for each request. Raises Problem."""
    known: Principal | None = getattr(request.state, "caller", None)
    if known is not None:
        return known
    try:
        found = await _principal(context, request)
    except Rejected as error:
        count_invalid(context, request)
        raise Problem("unauthenticated", str(error)) from None
    except Unverifiable as error:
        raise Problem("unavailable", str(error), {"Retry-After": "5"}) from None
    within_rate(context, found)
    request.state.caller = found
    return found


def count_invalid(context: Context, request: Request) -> None:
    """Count an invalid credential of the request's address. Raises Problem where there were too many.

    Only when it has turned out to be invalid: so they are counted exactly, and an address that sends many
    shuts out no valid one, its own or that of another behind the same proxy."""
    peer = request.client.host if request.client else ""
    forwarded = request.headers.getlist("x-forwarded-for")
    address = client_address(peer, forwarded, context.plan().queue.trusted_proxies)
    check_rate(context.failures.take(address, context.now()), "too many invalid credentials")


def within_rate(context: Context, caller: Principal) -> None:
    """Count a request of the caller. Raises Problem."""
    wait = context.rate.take(caller.account, context.now())
    check_rate(wait, f"more requests than allowed by {caller.subject}")


def check_rate(wait_s: int, detail: str) -> None:
    if wait_s:
        raise Problem("rate-limited", detail, {"Retry-After": str(wait_s)})


def needs(scope: str) -> Callable[..., Coroutine[Any, Any, Principal]]:
    """A dependency: the caller, who must have `scope`."""

    async def checked(caller: Annotated[Principal, Depends(principal)]) -> Principal:
        if not caller.may(scope):
            raise Problem("insufficient-scope", f"the credential lacks the scope {scope}")
        return caller

    return checked


Reader = Annotated[Principal, Depends(needs("jobs:read"))]
Writer = Annotated[Principal, Depends(needs("jobs:write"))]
UsageReader = Annotated[Principal, Depends(needs("usage:read"))]
