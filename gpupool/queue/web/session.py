"""Sign-in sessions and CSRF tokens, both in cookies that scripts can't read.

A session is a row of the database, found by a random value that its cookie has: signing out ends it wherever
the cookie is, and so does the end of the key. Where the public address is https, cookies are for this host
and https alone (`__Host-`, RFC 6265bis 4.1.3.2).
"""

from __future__ import annotations

import hmac
import re
import secrets
from datetime import datetime, timedelta
from urllib.parse import parse_qs

from fastapi import Request
from starlette.responses import Response

from gpupool.client import local_token
from gpupool.queue.api import auth
from gpupool.queue.api.context import RequestContext
from gpupool.queue.api.credentials import Rejected, principal_of
from gpupool.queue.api.entrance import came
from gpupool.queue.api.problems import ApiProblem
from gpupool.queue.records import ApiKey, Principal
from gpupool.queue.store import keys, sessions

SESSION, FORM = "gpupool_session", "gpupool_form"
LASTS_S = 12 * 3600
_NONCE = re.compile(r"[0-9a-f]{64}")
_FORM_TYPE = "application/x-www-form-urlencoded"


async def begin(context: RequestContext, request: Request, credential: str) -> str | None:
    """A new session's cookie, for an API key or the local token; None where the text is neither."""
    if credential.startswith(local_token.PREFIX):
        return await _begin_of_owner(context, request, credential, "call")
    key = await keys.find(context.db, credential, context.clock())
    return await sessions.begin(context.db, _end(context), key=key.id) if key else None


async def begin_by_link(context: RequestContext, request: Request, seal: str) -> str | None:
    """The same, for what a link has that `gpupool serve` has printed: each begins one session."""
    return await _begin_of_owner(context, request, seal, "link")


async def _begin_of_owner(
    context: RequestContext, request: Request, presented: str, use: local_token.Use
) -> str | None:
    try:
        auth.owner(context, request, presented, use)
    except Rejected:
        return None
    link = presented if use == "link" else None
    return await sessions.begin(context.db, _end(context), token=auth.local(context), link=link)


def _end(context: RequestContext) -> datetime:
    return context.clock() + timedelta(seconds=LASTS_S)


async def resume(context: RequestContext, request: Request) -> Principal | None:
    """Whose session the request belongs to; None where it has none that is still valid."""
    text = cookie(request, SESSION)
    found = await sessions.find(context.db, text, auth.local(context), context.clock()) if text else None
    return principal_of(found) if isinstance(found, ApiKey) else auth.OWNER if found else None


async def end(context: RequestContext, request: Request) -> None:
    """End the session of the request, for all that have its cookie."""
    await sessions.end(context.db, cookie(request, SESSION), context.clock())


def cookie(request: Request, name: str) -> str:
    return request.cookies.get(_called(request, name), "")


def nonce_of(request: Request) -> str:
    """The random value that the browser's CSRF tokens follow from; a new one where it has none."""
    present = cookie(request, FORM)
    return present if _NONCE.fullmatch(present) else secrets.token_hex(32)


def token(nonce: str, request: Request) -> str:
    """The CSRF token of this browser and session."""
    bound = f"form {cookie(request, SESSION)}"
    return hmac.new(nonce.encode(), bound.encode("utf-8", "replace"), "sha256").hexdigest()


async def checked_form(request: Request) -> dict[str, str]:
    """The fields of a form that one of our own pages sent. Raises ApiProblem. (Other sites' are refused
    before: `gpupool.queue.api.entrance`.)"""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM_TYPE:
        raise ApiProblem("unsupported-media-type", "a form of these pages is expected")
    try:
        given = parse_qs((await request.body()).decode(), keep_blank_values=True, max_num_fields=20)
    except ValueError:
        raise ApiProblem("invalid-request", "the form can't be read") from None
    fields = {name: values[-1] for name, values in given.items()}
    nonce, presented = cookie(request, FORM), fields.get("token", "")
    if not _NONCE.fullmatch(nonce) or not hmac.compare_digest(
        token(nonce, request).encode(), presented.encode("utf-8", "replace")
    ):
        raise ApiProblem("form-not-accepted", "the form is too old; open the page again and repeat it")
    return fields


def keep(response: Response, request: Request, name: str, value: str, lasts_s: int | None = None) -> None:
    """Set one of the cookies."""
    response.set_cookie(
        _called(request, name),
        value,
        max_age=lasts_s,
        httponly=True,
        samesite="strict",
        secure=came(request).https,
        path="/",
    )


def _called(request: Request, name: str) -> str:
    return f"__Host-{name}" if came(request).https else name
