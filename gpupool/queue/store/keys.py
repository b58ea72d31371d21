"""API keys: made, found by what a client presents, listed, revoked.

Only a hash of the secret is stored. The secret has 256 random bits, so that a fast hash is enough. This
module must not decide what a key allows.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection
from dataclasses import fields
from datetime import UTC, datetime

from gpupool.queue.records import ApiKey
from gpupool.queue.store.database import Database, Row, fetch, run

FORM = re.compile(r"gpk_([a-z0-9]{12})_([A-Za-z0-9_-]{43})")
"""`gpk_<id>_<secret>`: secret scanners find it by its beginning."""
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"


async def create(
    db: Database, name: str, tenants: Collection[str], scopes: Collection[str], expires_at: datetime | None
) -> tuple[ApiKey, str]:
    """A new key, and the text that stands for it: it can't be read again."""
    id = "".join(secrets.choice(LETTERS) for _ in range(12))
    text = f"gpk_{id}_{secrets.token_urlsafe(32)}"
    key = ApiKey(id, name, tuple(sorted(tenants)), tuple(sorted(scopes)), datetime.now(UTC), expires_at)
    async with db.connection() as connection:
        await run(
            connection,
            "key_create",
            id=id,
            hash=_hash(text),
            name=name,
            tenants=list(key.tenants),
            scopes=list(key.scopes),
            now=key.created_at,
            expires_at=expires_at,
        )
    return key, text


async def find(db: Database, presented: str, now: datetime | None = None) -> ApiKey | None:
    """The key that a client presents; None where it is unknown, expired or revoked."""
    now = now or datetime.now(UTC)
    form = FORM.fullmatch(presented)
    if form is None:
        return None
    async with db.connection() as connection:
        rows = await fetch(connection, "key_find", id=form[1])
        expected = bytes(rows[0]["hash"]) if rows else b"\0" * 32
        if not hmac.compare_digest(expected, _hash(presented)) or not rows:
            return None
        key = valid_key(rows[0], now)
        if key and (key.last_used_at is None or (now - key.last_used_at).total_seconds() > 60):
            await run(connection, "key_used", id=key.id, now=now)
    return key


async def listed(db: Database) -> list[ApiKey]:
    """All keys, the revoked ones too, oldest first."""
    async with db.connection() as connection:
        return [_key(row) for row in await fetch(connection, "keys")]


async def revoke(db: Database, id: str) -> bool:
    """Refuse the key from now on. False where there is none of that id, or it is revoked already."""
    async with db.connection() as connection:
        return bool(await fetch(connection, "key_revoke", id=id, now=datetime.now(UTC)))


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def valid_key(row: Row, now: datetime) -> ApiKey | None:
    """The key of a row; None where it has expired or is revoked."""
    key = _key(row)
    return None if key.revoked_at or (key.expires_at and key.expires_at <= now) else key


def _key(row: Row) -> ApiKey:
    given = {field.name: row[field.name] for field in fields(ApiKey)}
    return ApiKey(**{**given, "tenants": tuple(row["tenants"]), "scopes": tuple(row["scopes"])})
