"""Whether a checkpoint's place lies in the folder that a tenant's jobs have for it.

An object's key is text to S3, which knows no folders; programs that copy to and from it read `..`, empty
parts and %2e as a file system does. So a place counts only where both readings agree. What a job's code
writes to is decided by the credentials that it has: this binds what the queue passes on.
"""

from __future__ import annotations

import re

_PART = re.compile(r"[A-Za-z0-9!_.*'()=+@:,-]+")
"""The characters that S3 calls safe in keys (Amazon S3 User Guide, Naming objects), and those of times and
partitions (`=`, `+`, `@`, `:`, `,`); no escape, no separator, nothing that Unicode folds into either."""


def lies_in(place: str, folder: str) -> bool:
    """Whether `place`, an s3:// URL, is `folder` or something in it. `folder` ends with a slash."""
    if not place.startswith(folder):
        return False
    rest = place.removeprefix(folder)
    parts = rest.removesuffix("/").split("/") if rest else ()
    return all(_PART.fullmatch(part) and set(part) != {"."} for part in parts)
