"""Which part of an address is a secret: passwords and tokens in URLs must not be in files or argument lists.

What files and options hold is read by others: it is rendered, kept in Git, shown in the list of processes.
PostgreSQL's own forms, which only its library reads, are in `gpupool.queue.store.conninfo`.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, unquote, urlsplit

DATABASE, NATS = "GPUPOOL_DATABASE_URL", "GPUPOOL_NATS_URL"
"""Environment variables with a whole address, credentials included: the way to give them to a process."""
_TOKEN_AS_USER = frozenset({"http", "https", "nats", "tls", "ws", "wss"})
"""Schemes whose servers take a token in place of a user (NATS documentation, "Token Authentication"; Git
servers). With others, such as ssh, a user alone proves nothing."""
_SECRET_NAME = re.compile(
    r"pass(word|phrase|wd)?$|pwd$|secret$|token$|api_?key$|signature$|^(auth|sig|jwt|seed|creds)$"
)
"""Names of query parameters that hold one, in lower case."""
_USERINFO = re.compile(r"(?<=://)[^/\s]*@|[^/\s:]*:[^/\s]*@")

_PASSWORD = re.compile(
    r"(?<=://)[^/\s@:]*(?::|%3a)[^\s/]*@|((?:https?|nats|tls|wss?)://)[^/\s@]+@", re.IGNORECASE
)


def secret_in(address: str) -> str | None:
    """The name of the part that is a secret, in one address or several with commas between, or None."""
    for part in address.split(","):
        scheme, mark, rest = part.strip().partition("://")
        if not mark:
            scheme, rest = "", scheme
        authority = re.split(r"[/?#\\]", rest, maxsplit=1)[0]
        user, at, _ = authority.rpartition("@")
        if at and (":" in unquote(user) or scheme.lower() in _TOKEN_AS_USER):
            return "password" if ":" in unquote(user) else "user"
        for name, _value in _parameters(rest):
            if _SECRET_NAME.search(name.lower()):
                return name
    return None


def _parameters(rest: str) -> list[tuple[str, str]]:
    parts = urlsplit(f"//x/{rest}")
    return [
        *parse_qsl(parts.query, keep_blank_values=True),
        *parse_qsl(parts.fragment, keep_blank_values=True),
    ]


def without_passwords(text: str) -> str:
    """A message without the passwords and tokens before the hosts of addresses in it. Names of users stay."""
    return _PASSWORD.sub(lambda match: f"{match[1] or ''}...@", text)


def without_user(text: str) -> str:
    """`text` fit to be shown: without what may be a user and a password before an @."""
    return _USERINFO.sub("...@", text)
