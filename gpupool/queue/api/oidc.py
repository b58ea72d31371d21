"""Tokens of the OIDC provider that the environment file names (queue.auth): JWT in, Principal out.

Groups of the token grant the tenants whose access.oidcGroups name them. This module must not accept a
symmetric algorithm, and must not fetch keys more often than once in `REFRESH` seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import httpx2
import jwt

from gpupool.plan.model import Plan
from gpupool.queue.api.credentials import Rejected
from gpupool.queue.records import Principal

ALGORITHMS = ("RS256", "ES256", "EdDSA")
LEEWAY = 30
REFRESH = 60
"""Seconds between two fetches of the provider's keys."""
KEYS_AGE = 3600
"""Seconds after which keys are fetched again, so that withdrawn ones are forgotten."""
SCOPES = frozenset({"jobs:read", "jobs:write", "usage:read"})
"""What a token without a scope claim may do; one with a claim may do those of them that the claim names."""

Fetch = Callable[[str], Awaitable[Mapping[str, Any]]]


async def fetch_json(address: str) -> Mapping[str, Any]:
    """GET one JSON object, of a server that answers within 5 s."""
    async with httpx2.AsyncClient(timeout=5, follow_redirects=False) as client:
        response = await client.get(address, headers={"Accept": "application/json"})
        response.raise_for_status()
        found = response.json()
    if not isinstance(found, dict):
        raise TypeError(f"{address} is no JSON object")
    return found


class Oidc:
    """Verifies tokens; holds the provider's public keys."""

    def __init__(self, fetch: Fetch = fetch_json) -> None:
        self._fetch = fetch
        self._issuer = ""
        self._keys: dict[str, jwt.PyJWK] = {}
        self._tried = self._fetched = float("-inf")
        self._lock = asyncio.Lock()

    async def verify(self, token: str, plan: Plan, now: float) -> Principal:
        """Who the token stands for. Raises Rejected."""
        issuer, audience = plan.queue.auth_issuer, plan.queue.auth_audience
        if issuer is None or audience is None:
            raise Rejected("this queue accepts API keys only")
        try:
            header = jwt.get_unverified_header(token)
            if header.get("alg") not in ALGORITHMS:
                raise Rejected(f"the token's algorithm is not one of {', '.join(ALGORITHMS)}")
            key = await self._key(issuer, str(header.get("kid", "")), now)
            claims = jwt.decode(
                token,
                key,
                algorithms=list(ALGORITHMS),
                audience=audience,
                issuer=issuer,
                leeway=LEEWAY,
                options={
                    "require": ["exp", "iss", "aud", "sub"],
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
        except (jwt.PyJWTError, UnicodeError, ValueError) as error:
            raise Rejected(f"the token is not valid: {error}") from None
        if _number(claims, "exp", 0) + LEEWAY < now:
            raise Rejected("the token has expired")
        if _number(claims, "nbf", 0) - LEEWAY > now:
            raise Rejected("the token is not valid yet")
        return _principal(claims, plan)

    async def _key(self, issuer: str, kid: str, now: float) -> jwt.PyJWK:
        async with self._lock:
            if issuer != self._issuer:
                self._issuer, self._keys, self._tried = issuer, {}, float("-inf")
            stale = kid not in self._keys or now - self._fetched > KEYS_AGE
            if stale and now - self._tried >= REFRESH:
                self._tried = now
                await self._refresh(issuer, now)
        if kid not in self._keys:
            raise Rejected("the provider has no such key (kid)")
        return self._keys[kid]

    async def _refresh(self, issuer: str, now: float) -> None:
        try:
            about = await self._fetch(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
            if about.get("issuer") != issuer:
                raise Rejected("the provider's configuration names another issuer")
            found = await self._fetch(str(about["jwks_uri"]))
            rows = [row for row in found["keys"] if row.get("use", "sig") == "sig" and row.get("kid")]
        except (httpx2.HTTPError, OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            if self._keys:
                return  # an unreachable provider does not lock out the keys that are known
            raise Rejected(f"the provider's keys can't be read: {type(error).__name__}") from None
        self._keys = dict(_public_keys(rows))
        self._fetched = now


def _public_keys(rows: list[Mapping[str, Any]]) -> list[tuple[str, jwt.PyJWK]]:
    """The usable keys; a symmetric one never is."""
    usable = []
    for row in rows:
        if row.get("kty") in ("RSA", "EC", "OKP"):
            try:
                usable.append((str(row["kid"]), jwt.PyJWK.from_dict(dict(row))))
            except jwt.PyJWTError:
                continue
    return usable


def _number(claims: Mapping[str, Any], name: str, default: float) -> float:
    value = claims.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Rejected(f"the token's {name} is no number")
    return float(value)


def _principal(claims: Mapping[str, Any], plan: Plan) -> Principal:
    listed = claims.get("groups", [])
    groups = {group for group in listed if isinstance(group, str)} if isinstance(listed, list) else set()
    tenants = frozenset(tenant.name for tenant in plan.tenants if groups & set(tenant.oidc_groups))
    said = claims.get("scope", claims.get("scp"))
    named = said.split() if isinstance(said, str) else said if isinstance(said, list) else []
    scopes = SCOPES if said is None else SCOPES & {scope for scope in named if isinstance(scope, str)}
    return Principal(subject=str(claims["sub"]), tenants=tenants, scopes=scopes, source="oidc")
