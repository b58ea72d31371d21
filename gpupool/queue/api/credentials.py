"""API keys as credentials: the presented text in, Principal out. Tokens are in `gpupool.queue.api.oidc`."""

from __future__ import annotations

import hashlib
from datetime import datetime

from gpupool.queue.api.cache import Cache
from gpupool.queue.records import ApiKey, Principal
from gpupool.queue.store import keys
from gpupool.queue.store.database import Database

KEY_PREFIX = "gpk_"
REMEMBERED_SECONDS = 5
"""How long a key that was found is believed without asking the database: a revoked one works no longer."""

LOOKED_UP = 4
"""Keys at once: half of the connections to the database, so that invalid ones leave room for work."""


class Rejected(Exception):
    """The credential proves nothing. The text is fit to be shown."""


class Unverifiable(Exception):
    """Whether the credential proves anything can't be found out now. The text is fit to be shown."""


class Keys:
    """Looks up API keys; remembers for some seconds which there are, and which not."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._found = Cache[bytes, ApiKey | None](REMEMBERED_SECONDS, at_once=LOOKED_UP)

    async def verify(self, presented: str, at: datetime) -> Principal:
        """Who the key stands for. Raises Rejected."""
        digest = hashlib.sha256(presented.encode("utf-8", "surrogatepass")).digest()
        key = await self._found.get(digest, at.timestamp(), lambda: keys.find(self._db, presented, at))
        if key is None:
            raise Rejected("no such API key; it may have expired or been revoked")
        if key.expires_at and key.expires_at <= at:
            raise Rejected("the API key has expired")
        return principal_of(key)


def principal_of(key: ApiKey) -> Principal:
    """Who a key that is valid stands for."""
    return Principal(key.name, frozenset(key.tenants), frozenset(key.scopes), "key")
