"""Writes of an object at the version that was read, tried again where somebody else wrote in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gpupool.live.cluster.kube_api import ApiError

T = TypeVar("T")
_ATTEMPTS = 5
"""A kubelet writes its node every few seconds, so a collision or two is to be expected."""
_CONFLICT = 409


def until_no_conflict(write: Callable[[], T]) -> T:
    """What `write` gives, which reads an object and patches it with the resourceVersion that it read. Raises
    ApiError where the server refuses it for another reason, or again and again for this one."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return write()
        except ApiError as error:
            if error.status != _CONFLICT:
                raise
    return write()
