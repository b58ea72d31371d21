"""Which minor versions of Kubernetes are known, and as which one a cluster of another is judged.

It must not read the data of a minor: see `schema` for kinds, `vapcheck.cel.libraries` for functions.
"""

from __future__ import annotations

import re

MINORS = ("1.33", "1.34", "1.35", "1.36")
"""Those that objects and policies can be judged as, the oldest first; kinds/ has data for each."""
NEWEST = MINORS[-1]
_VERSION = re.compile(r"v?1\.([0-9]{1,3})(?:[.+-]|\Z)")
"""1.33, v1.33.5, and what clouds say, as v1.33.5-gke.1 or 1.33+."""


def number(minor: str) -> int:
    """33 of 1.33 (or v1.33.5). Raises ValueError for what is no version 1.x."""
    parts = _VERSION.match(minor)
    if parts is None:
        raise ValueError(f"{minor!r} is not a Kubernetes version; write it as {NEWEST}")
    return int(parts[1])


def nearest(version: str) -> str:
    """The known minor that is nearest to a version. Raises ValueError for what is no version 1.x."""
    wanted = number(version)
    return min(MINORS, key=lambda minor: abs(number(minor) - wanted))
