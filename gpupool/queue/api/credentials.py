"""API keys as credentials: the presented text in, Principal out.

This module must not know HTTP. Tokens are in `gpupool.queue.api.oidc`.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from datetime import UTC, datetime

from gpupool.queue.records import Principal
from gpupool.queue.store import keys
from gpupool.queue.store.database import Database

KEY_PREFIX = "gpk_"
REMEMBERED_SECONDS = 5
"""How long a key that was found is believed without asking the database: a revoked one works no longer."""
_REMEMBERED = 10_000


class Rejected(Exception):
    """The credential proves nothing. The text is fit to be shown."""


class Unverifiable(Exception):
    """Whether the credential proves anything can't be found out now. The text is fit to be shown."""


class Keys:
    """Looks up API keys; remembers those it found for some seconds."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._found = OrderedDict[bytes, tuple[float, Principal, float | None]]()

    async def verify(self, presented: str, now: float) -> Principal:
        """Who the key stands for. Raises Rejected."""
        digest = hashlib.sha256(presented.encode("utf-8", "surrogatepass")).digest()
        at, principal, ends = self._found.get(digest, (float("-inf"), None, None))
        if principal is None or not 0 <= now - at < REMEMBERED_SECONDS:
            key = await keys.find(self._db, presented, datetime.fromtimestamp(now, UTC))
            if key is None:
                self._found.pop(digest, None)
                raise Rejected("no such API key; it may have expired or been revoked")
            principal = Principal(key.name, frozenset(key.tenants), frozenset(key.scopes), "key")
            ends = key.expires_at.timestamp() if key.expires_at else None
            self._found[digest] = (now, principal, ends)
            if len(self._found) > _REMEMBERED:
                self._found.popitem(last=False)
        if ends is not None and ends <= now:
            raise Rejected("the API key has expired")
        return principal
