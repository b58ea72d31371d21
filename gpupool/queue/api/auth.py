"""Who a request comes from: an API key, a token of a pod or of the OIDC provider, or, with `--dev` alone, the
token of the project, or no credential on loopback, which runs no commands.

What a credential grants is the Principal; `X-` headers choose among it later (`gpupool.queue.api.accept`).
This module must not read any header but Authorization and X-Api-Key.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Request

from gpupool.client import local_token
from gpupool.queue.api.client_address import client_address
from gpupool.queue.api.context import RequestContext, present
from gpupool.queue.api.credentials import KEY_PREFIX, Rejected, Unverifiable
from gpupool.queue.api.entrance import came
from gpupool.queue.api.problems import ApiProblem
from gpupool.queue.records import Principal

OWNER = Principal("dev", frozenset("*"), frozenset({"admin"}), "dev")
"""With the token of the project."""
ANYBODY = Principal(
    "dev",
    frozenset("*"),
    frozenset({"jobs:read", "jobs:write", "usage:read", "users:any", "metrics:read"}),
    "dev",
    commands=False,
)
"""Without a credential, on loopback."""
PROMETHEUS = Principal("prometheus", frozenset("*"), frozenset({"metrics:read"}), "key", commands=False)
"""With the key of queue.metricsKeySecretRef."""
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


async def verified(context: RequestContext, request: Request) -> Principal:
    """Who the request comes from, not counted. Raises Rejected, Unverifiable."""
    credential = request.headers.get("x-api-key", "")
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    if not credential and scheme.lower() == "bearer":
        credential = value.strip()
    if not credential:
        return _without_credential(context, request)
    if len(credential) > _LONGEST or not credential.isascii() or not credential.isprintable():
        raise Rejected("the credential is no key and no token")
    if context.metrics_key and hmac.compare_digest(credential, context.metrics_key):
        return PROMETHEUS
    if credential.startswith(KEY_PREFIX):
        return await context.keys.verify(credential, context.clock())
    if credential.startswith(local_token.PREFIX):
        return owner(context, request, credential)
    plan = context.plan()
    pod = await context.pods.verify(credential, plan, context.now()) if context.pods else None
    return pod or await context.oidc.verify(credential, plan, context.now())


def _without_credential(context: RequestContext, request: Request) -> Principal:
    if not context.dev:
        raise Rejected("the request has no credential")
    if not came(request).direct:
        raise Rejected(
            "without a credential answers are for programs and pages of this machine alone, not through a"
            " proxy and not to pages of other sites"
        )
    return ANYBODY


def owner(
    context: RequestContext, request: Request, presented: str, use: local_token.Use = "call"
) -> Principal:
    """The developer whose queue this is. Raises Rejected."""
    token = local(context)
    if token is None or not local_token.opens(token, use, came(request).port, presented, context.now()):
        raise Rejected(f"this is not the token of the queue that answers here{token_place(context)}")
    return OWNER


def local(context: RequestContext) -> str | None:
    """The token of this project's queue, as its file has it now; None where there is none."""
    return local_token.read(context.token) if context.dev and context.token else None


def token_place(context: RequestContext) -> str:
    return f"; it is in {context.token}: give it as GPUPOOL_KEY" if context.token else ""


def check_commands(context: RequestContext, caller: Principal, http_job: bool) -> None:
    """Raises ApiProblem where the caller may not run commands, and the job is one. Who may not submit a job
    may not change it either."""
    if not http_job and not caller.commands:
        raise ApiProblem(
            "token-needed",
            f"container jobs run commands here; they need the token of this queue{token_place(context)}",
        )


async def principal(
    context: Annotated[RequestContext, Depends(present)],
    request: Request,
) -> Principal:
    """The verified caller of a request, within its rate."""
    return await caller_of(context, request)


async def caller_of(context: RequestContext, request: Request) -> Principal:
    """The same, found out and counted once for each request. Raises ApiProblem."""
    known: Principal | None = getattr(request.state, "caller", None)
    if known is not None:
        return known
    try:
        found = await verified(context, request)
    except Rejected as error:
        count_invalid(context, request)
        raise ApiProblem("unauthenticated", str(error)) from None
    except Unverifiable as error:
        raise ApiProblem("unavailable", str(error), {"Retry-After": "5"}) from None
    within_rate(context, found)
    request.state.caller = found
    return found


def count_invalid(context: RequestContext, request: Request) -> None:
    """Count an invalid credential of the request's address. Raises ApiProblem where there were too many.

    Only when it has turned out to be invalid: so they are counted exactly, and an address that sends many
    shuts out no valid one, its own or that of another behind the same proxy."""
    peer = request.client.host if request.client else ""
    forwarded = request.headers.getlist("x-forwarded-for")
    address = client_address(peer, forwarded, context.plan().queue.trusted_proxies)
    check_rate(context.failures.take(address, context.now()), "too many invalid credentials")


def within_rate(context: RequestContext, caller: Principal) -> None:
    """Count a request of the caller. Raises ApiProblem."""
    wait = context.rate.take(caller.rate_limit_key, context.now())
    check_rate(wait, f"more requests than allowed by {caller.subject}")


def check_rate(wait_s: int, detail: str) -> None:
    if wait_s:
        raise ApiProblem("rate-limited", detail, {"Retry-After": str(wait_s)})


def needs(scope: str) -> Callable[..., Coroutine[Any, Any, Principal]]:
    """A dependency: the caller, who must have `scope`."""

    async def checked(caller: Annotated[Principal, Depends(principal)]) -> Principal:
        if not caller.may(scope):
            raise ApiProblem("insufficient-scope", f"the credential lacks the scope {scope}")
        return caller

    return checked


Reader = Annotated[Principal, Depends(needs("jobs:read"))]
Writer = Annotated[Principal, Depends(needs("jobs:write"))]
UsageReader = Annotated[Principal, Depends(needs("usage:read"))]
