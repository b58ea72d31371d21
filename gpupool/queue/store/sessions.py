"""Sessions of the pages: begun, found by what a browser presents, ended.

Only a hash of what the browser has is stored. A session stands for an API key, and ends with it, or for the
local token of `gpupool serve --dev`. This module must not decide what a session allows.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from datetime import datetime

from gpupool.queue.records import ApiKey
from gpupool.queue.store.database import Database, fetch, run
from gpupool.queue.store.keys import valid_key

FORM = re.compile(r"[A-Za-z0-9_-]{43}")


async def begin(
    db: Database,
    ends_at: datetime,
    *,
    key: str | None = None,
    token: str | None = None,
    link: str | None = None,
) -> str | None:
    """A new session of the key with this id, or of the local token: what its cookie is. None where `link` has
    begun one before."""
    text = secrets.token_urlsafe(32)
    hashes = {"hash": _hash(text), "token": token and _hash(token), "link": link and _hash(link)}
    async with db.connection() as connection:
        begun = await fetch(connection, "session_begin", **hashes, key_id=key, ends_at=ends_at)
    return text if begun else None


async def find(db: Database, text: str, token: str | None, now: datetime) -> ApiKey | str | None:
    """The key that a session stands for, or the local token, if that is still `token`; None where the session
    is unknown or has ended, by itself or with what it stands for."""
    if not FORM.fullmatch(text):
        return None
    async with db.connection() as connection:
        rows = await fetch(connection, "session_find", hash=_hash(text), now=now)
    if not rows:
        return None
    if rows[0]["id"] is not None:
        return valid_key(rows[0], now)
    return token if token is not None and bytes(rows[0]["token"]) == _hash(token) else None


async def end(db: Database, text: str, now: datetime) -> None:
    """Refuse the session from now on, from any browser."""
    if FORM.fullmatch(text):
        async with db.connection() as connection:
            await run(connection, "session_end", hash=_hash(text), now=now)


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
