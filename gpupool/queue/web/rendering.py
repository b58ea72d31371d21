"""Templates, static files and headers of the pages.

Every word of a page may come from a user: all of it is escaped, characters that would hide or reorder text
are spelled out, and the content security policy allows no script and no style but the two files here. This
module must not know what a page shows.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import Response

from gpupool.environment.drawings.page_style import page_style, visible
from gpupool.environment.money import usd
from gpupool.queue.api.context import RequestContext
from gpupool.queue.api.notices import operates
from gpupool.queue.api.problems import ApiProblem
from gpupool.queue.records import MICRO
from gpupool.queue.web import session
from gpupool.queue.web.visitor import Visitor

FOLDER = Path(__file__).parent
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""Of pages, beside those of every answer (`gpupool.queue.api.entrance`)."""
_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}

router = APIRouter(include_in_schema=False)


@functools.cache
def _static() -> Mapping[str, tuple[str, bytes]]:
    """Name -> (hash, content)."""
    files = {path.name: path.read_text(encoding="utf-8") for path in (FOLDER / "static").iterdir()}
    files["queue.css"] = f"{page_style()}\n\n{files['queue.css']}"
    return {
        name: (hashlib.sha256(text.encode()).hexdigest()[:16], text.encode()) for name, text in files.items()
    }


def static_address(name: str) -> str:
    """Where a file is served; another content has another address."""
    return f"/static/{_static()[name][0]}/{name}"


@router.get("/static/{hash}/{name}")
async def static_file(hash: str, name: str) -> Response:
    known, content = _static().get(name, ("", b""))
    if not known or hash != known:
        raise ApiProblem("not-found", f"there is no file {name[:100]!r}")
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(content, 200, headers, _TYPES[name.rpartition(".")[2]])


def page(request: Request, template: str, status: int = 200, /, **values: Any) -> Response:
    """The page made of a template. Forms in it get the browser's CSRF token."""
    nonce = session.nonce_of(request)
    values |= {"token": session.token(nonce, request), "path": request.url.path}
    text = _templates().get_template(f"{template}.html.j2").render(values)
    response = Response(text, status, HEADERS, "text/html; charset=utf-8")
    if request.cookies.get(session.FORM) != nonce:
        session.keep(response, request, session.FORM, nonce)
    return response


def visitor_page(
    request: Request, context: RequestContext, visitor: Visitor, template: str, /, **values: Any
) -> Response:
    """The page made of a template for one who may see the queue."""
    trouble = context.trouble()
    values["trouble"] = visitor.text(str(trouble), context.plan()) if trouble else ""
    values |= {"environment": context.plan().environment, "dev": context.dev, "at": context.clock()}
    operator = operates(context, visitor.principal)
    values["notices"] = context.plan_state().notices(whole=True) if operator else ()
    return page(request, template, visitor=visitor, **values)


@functools.cache
def _templates() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        finalize=visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    written = (clock, duration, hours, iso, money, percent, plural, usd)
    environment.filters |= {function.__name__: function for function in written}
    environment.globals |= {"static": static_address, "kept": kept}
    return environment


def kept(visitor: Visitor) -> str:
    """The query that keeps a page narrowed to a tenant."""
    return f"?{urlencode({'tenant': visitor.chosen})}" if visitor.chosen else ""


def money(micro: int) -> str:
    """Micro-USD for people."""
    return usd(micro / MICRO)


def percent(share: float) -> str:
    return f"{share:.0%}"


def duration(seconds: float) -> str:
    """`4 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`."""
    if seconds < 10:
        return f"{max(0.0, seconds):.1f} s".replace(".0 s", " s")
    whole = round(seconds)
    for size, unit, below, part in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size} {unit}" + (f" {rest} {part}" if rest else "")
    return f"{whole} s"


def hours(amount: float) -> str:
    """Hours without a unit, as precise as is of use."""
    if 0 < amount < 0.01:
        return "under 0.01"
    return f"{amount:.2f}" if amount < 10 else f"{amount:,.0f}"


def iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def clock(at: datetime) -> str:
    """A moment for people, in UTC."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
