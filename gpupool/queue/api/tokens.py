"""What a token (JWT) says of itself, before anything of it is verified.

This module must not believe any of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jwt

from gpupool.queue.api.credentials import Rejected

_LATEST = 1e11
"""Seconds since 1970; no token is made for the year 5138."""


def read(token: str) -> tuple[Mapping[str, Any], Mapping[str, Any]] | None:
    """Header and claims; None where it is no JWT."""
    try:
        decoded = jwt.decode_complete(token, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, RecursionError):
        return None
    return decoded["header"], decoded["payload"]


def check_times(claims: Mapping[str, Any], now: float, leeway: float = 0) -> None:
    """Whether `now` is between nbf and exp (RFC 7519, 4.1: NumericDate). Raises Rejected; also where one of
    them, or iat, is no moment."""
    moments = {name: _moment(claims, name) for name in ("exp", "nbf", "iat") if name in claims}
    if "exp" not in moments or moments["exp"] + leeway <= now:
        raise Rejected("the token has expired" if moments.get("exp") else "the token never expires")
    if moments.get("nbf", 0) - leeway > now:
        raise Rejected("the token is not valid yet")


def _moment(claims: Mapping[str, Any], name: str) -> float:
    value = claims[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Rejected(f"the token's {name} is no number")
    if not 0 <= value < _LATEST:
        raise Rejected(f"the token's {name} is no moment of this age")
    return float(value)
