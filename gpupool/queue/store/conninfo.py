"""What is secret in the address of a PostgreSQL, as its own library reads it: a URL, or keywords with values.

The library marks its options itself (libpq, PQconninfoParse), so that a new one of theirs needs no line here.
This module must not show a value.
"""

from __future__ import annotations

import re

from psycopg import Error, pq

_HIDDEN = b"*"
"""libpq's mark of what is not shown while it is typed."""
_KEYS = "scram_"
"""Of the options that hold keys of SCRAM, as good as the password; libpq marks them as for debugging."""


class Unreadable(ValueError):
    """libpq can't read the address. The text says nothing of it: a password may be at the wrong place."""


def secret_in_conninfo(address: str) -> str | None:
    """The first option that holds a secret; None where there is none. Raises Unreadable."""
    # SQLAlchemy's name of a driver is not libpq's.
    plain = re.sub(r"^\s*(postgres(?:ql)?)\+\w+://", r"\1://", address)
    try:
        options = pq.Conninfo.parse(plain.encode())
    except (Error, ValueError):
        raise Unreadable("not an address of PostgreSQL") from None
    for option in options:
        keyword = option.keyword.decode()
        if option.val and (option.dispchar == _HIDDEN or keyword.startswith(_KEYS)):
            return keyword
    return None
