"""What an exchange with a target says of it: taken, or why not, and when another one may help. Pure.

The one place that tells what was not reached from what may have been done, for jobs, callbacks and alerts. It
must not send.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime

import aiohttp

from gpupool.findings.address_secrets import without_user

LONGEST_PAUSE_S = 3600.0
"""A target that wants a longer pause is asked again after this one."""
FOLLOWED = frozenset({307, 308})
"""Redirects after which the same request is sent on (RFC 9110, 15.4)."""
CLIENT_ERRORS = range(400, 500)
WORTH_RETRYING = frozenset({408, 425, 429})
_NOT_REACHED = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ServerFingerprintMismatch,
    aiohttp.InvalidURL,
)
"""Errors of aiohttp before anything was sent; the first is that of names, TLS and certificates as well."""


class NotAllowed(Exception):
    """The target may not be called."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a target has not taken what was sent."""

    reason: str
    retry: bool
    """Whether another try may help."""
    pause_s: float = 0.0
    """What the target wants to pass before it."""


def failure_of(
    status: int, headers: Mapping[str, str], now: datetime, whom: str = "the target"
) -> Failure | None:
    """What an answer says; None: it was taken. `now` counts where the answer has no Date of its own."""
    if 200 <= status < 300:
        return None
    headers = {name.lower(): value for name, value in headers.items()}
    location = headers.get("location")
    if 300 <= status < 400:
        where = f"with Location {_shown(location)!r}" if location else "without a Location"
        reason = f"{whom} answered {status} {where}; a POST follows 307 and 308 alone: give the last address"
        return Failure(reason, retry=False)
    retry = status not in CLIENT_ERRORS or status in WORTH_RETRYING
    return Failure(f"{whom} answered {status}", retry, _pause_s(headers, now) if retry else 0.0)


def failure_by(error: BaseException, whom: str = "the target") -> Failure:
    """What an exchange says that ended with an error."""
    for cause in (error, error.__cause__):
        if isinstance(cause, NotAllowed):
            return Failure(str(cause), retry=False)
    text = str(error) or type(error).__name__
    if not reached(error):
        return Failure(f"{whom} can't be reached: {text}", retry=True)
    return Failure(f"{whom} gave no whole answer, and may have done what was asked: {text}", retry=True)


def reached(error: BaseException) -> bool:
    """Whether anything of a request may have come to the target that it was for."""
    return not isinstance(error, _NOT_REACHED)


def _pause_s(headers: Mapping[str, str], now: datetime) -> float:
    """Retry-After (RFC 9110, 10.2.3): seconds, or a date by the clock of the answer's Date."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return min(LONGEST_PAUSE_S, float(text[:9]))
    until = _date(text)
    if until is None:
        return 0.0
    return min(LONGEST_PAUSE_S, max(0.0, (until - (_date(headers.get("date", "")) or now)).total_seconds()))


def _date(text: str) -> datetime | None:
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, IndexError, OverflowError):
        return None
    return at if at.tzinfo is not None else None


def _shown(location: str) -> str:
    """Without what may be a secret: user, query and fragment."""
    bare = location.partition("#")[0].partition("?")[0]
    return without_user(bare.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))[:200]
