"""Sign-in sessions and CSRF tokens, both in cookies that scripts can't read.

A session names an API key and is signed with a secret that follows from the key's stored hash: any replica
can check it, and it ends with the key. The key itself is in no cookie. This module must not know pages.
"""

from __future__ import annotations

import hmac
import re
import secrets
from urllib.parse import parse_qs, urlsplit

from fastapi import Request
from starlette.responses import Response

from gpupool.queue.api.context import Context
from gpupool.queue.api.credentials import principal_of
from gpupool.queue.api.problems import Problem
from gpupool.queue.records import Principal
from gpupool.queue.store import keys

SESSION, FORM = "gpupool_session", "gpupool_form"
LASTS_S = 12 * 3600
_VALUE = re.compile(r"([a-z0-9]{12})\.([0-9]{1,12})\.([0-9a-f]{64})")
_NONCE = re.compile(r"[0-9a-f]{64}")
_FORM_TYPE = "application/x-www-form-urlencoded"


async def begin(context: Context, key_text: str) -> str | None:
    """A new session's cookie; None where the text is no valid key."""
    key = await keys.find(context.db, key_text, context.clock())
    found = await keys.session_secret(context.db, key.id, context.clock()) if key else None
    if found is None:
        return None
    key, secret = found
    ends = int(context.now()) + LASTS_S
    return f"{key.id}.{ends}.{_signature(secret, key.id, ends)}"


async def resume(context: Context, request: Request) -> Principal | None:
    """Whose session the request belongs to; None where it has none that is still valid."""
    form = _VALUE.fullmatch(request.cookies.get(SESSION, ""))
    if form is None or int(form[2]) <= context.now():
        return None
    found = await keys.session_secret(context.db, form[1], context.clock())
    if found is None or not hmac.compare_digest(_signature(found[1], form[1], int(form[2])), form[3]):
        return None
    return principal_of(found[0])


def _signature(secret: bytes, id: str, ends: int) -> str:
    return hmac.new(secret, f"{id}.{ends}".encode(), "sha256").hexdigest()


def nonce_of(request: Request) -> str:
    """The random value that the browser's CSRF tokens follow from; a new one where it has none."""
    given = request.cookies.get(FORM, "")
    return given if _NONCE.fullmatch(given) else secrets.token_hex(32)


def token(nonce: str, request: Request) -> str:
    """The CSRF token of this browser and session."""
    bound = f"form {request.cookies.get(SESSION, '')}"
    return hmac.new(nonce.encode(), bound.encode("utf-8", "replace"), "sha256").hexdigest()


async def checked_form(request: Request) -> dict[str, str]:
    """The fields of a form that one of our own pages sent. Raises Problem."""
    origin = request.headers.get("origin")
    foreign = origin is not None and urlsplit(origin).netloc != request.headers.get("host")
    if foreign or request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise Problem("form-not-accepted", "the form was sent from another site")
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM_TYPE:
        raise Problem("unsupported-media-type", "a form of these pages is expected")
    try:
        given = parse_qs((await request.body()).decode(), keep_blank_values=True, max_num_fields=20)
    except ValueError:
        raise Problem("invalid-request", "the form can't be read") from None
    fields = {name: values[-1] for name, values in given.items()}
    nonce, presented = request.cookies.get(FORM, ""), fields.get("token", "")
    if not _NONCE.fullmatch(nonce) or not hmac.compare_digest(
        token(nonce, request).encode(), presented.encode("utf-8", "replace")
    ):
        raise Problem("form-not-accepted", "the form is too old; open the page again and repeat it")
    return fields


def keep(response: Response, request: Request, name: str, value: str, lasts_s: int | None = None) -> None:
    """Set one of the cookies."""
    https = request.url.scheme == "https" or request.headers.get("x-forwarded-proto") == "https"
    response.set_cookie(
        name, value, max_age=lasts_s, httponly=True, samesite="strict", secure=https, path="/"
    )
