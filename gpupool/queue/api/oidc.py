"""Tokens of the OIDC provider that the environment file names (queue.auth): JWT in, Principal out.

Groups of the token grant the tenants whose access.oidcGroups name them. This module must not accept a
symmetric algorithm, must not fetch keys more often than once in `REFRESH` seconds, and must not let a token
whose key is known wait for a fetch.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx2
import jwt

from gpupool.environment.plan.model import Plan
from gpupool.queue.api import json_bounds, tokens
from gpupool.queue.api.credentials import Rejected, Unverifiable
from gpupool.queue.api.fetched_value import Renewed
from gpupool.queue.records import Principal

ALGORITHMS = ("RS256", "ES256", "EdDSA")
LEEWAY = 30
REFRESH = 60
"""Seconds between two fetches of the provider's keys."""
KEYS_AGE = 3600
"""Seconds after which keys are fetched again, so that withdrawn ones are forgotten."""
LARGEST_ANSWER = 256 * 1024
"""Bytes of a provider's configuration, and of its keys."""
MOST_KEYS = 100
SCOPES = frozenset({"jobs:read", "jobs:write", "usage:read"})
"""What a token without a scope claim may do; one with a claim may do those of them that the claim names."""
_KINDS: Mapping[str, tuple[str, str | None, tuple[str, ...]]] = {
    "RSA": ("RS256", None, ("n", "e")),
    "EC": ("ES256", "P-256", ("x", "y")),
    "OKP": ("EdDSA", "Ed25519", ("x",)),
}
"""Type of a key (RFC 7518, 6; RFC 8037) -> its algorithm, its curve, and its public members."""
_MODULUS = range(342, 1367)
"""Characters in base64url of 2,048 to 8,192 bits: a longer one takes long to verify with."""

Fetch = Callable[[str], Awaitable[Mapping[str, Any]]]


async def fetch_json(address: str) -> Mapping[str, Any]:
    """GET one JSON object, not following redirects. Raises ValueError, httpx2.HTTPError."""
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    text = bytearray()
    async with (
        httpx2.AsyncClient(timeout=5, follow_redirects=False) as client,
        client.stream("GET", address, headers=headers) as response,
    ):
        if response.status_code != 200:
            raise ValueError(f"{address} answers {response.status_code}")
        async for part in response.aiter_raw():
            text += part
            if len(text) > LARGEST_ANSWER:
                raise ValueError(f"{address} has more than {LARGEST_ANSWER} bytes")
    json_bounds.check(bytes(text))
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(f"{address} is no JSON object")
    return found


class Oidc:
    """Verifies tokens; holds the provider's public keys."""

    def __init__(self, fetch: Fetch = fetch_json) -> None:
        self._fetch = fetch
        self._issuer = ""
        self._keys = self._of(self._issuer)

    def _of(self, issuer: str) -> Renewed[Mapping[str, jwt.PyJWK]]:
        return Renewed(lambda: _fetch_keys(self._fetch, issuer), REFRESH)

    async def verify(self, token: str, plan: Plan, now: float) -> Principal:
        """Who the token stands for. Raises Rejected, and Unverifiable where the provider does not say."""
        issuer, audience = plan.queue.auth_issuer, plan.queue.auth_audience
        if issuer is None or audience is None:
            raise Rejected("this queue accepts API keys only")
        said = tokens.read(token)
        if said is None:
            raise Rejected("the credential is no key and no token")
        header, claims = said
        if header.get("alg") not in ALGORITHMS:
            raise Rejected(f"the token's algorithm is not one of {', '.join(ALGORITHMS)}")
        if claims.get("iss") != issuer:
            raise Rejected("the token is of another issuer")
        tokens.check_times(claims, now, LEEWAY)
        key = await self._key(issuer, header.get("kid"), now)
        try:
            claims = jwt.decode(
                token,
                key,
                algorithms=[key.algorithm_name],
                audience=audience,
                issuer=issuer,
                options={
                    "require": ["exp", "iss", "aud", "sub"],
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise Rejected(f"the token is not valid: {error}") from None
        return _principal(claims, plan)

    async def _key(self, issuer: str, kid: object, now: float) -> jwt.PyJWK:
        if issuer != self._issuer:
            self._issuer, self._keys = issuer, self._of(issuer)
        keys = self._keys
        key = _named(keys.value, kid)
        if key is not None:
            if now - keys.fetched > KEYS_AGE:
                keys.renew(now)
            return key
        await keys.wait(now)
        key = _named(keys.value, kid)
        if key is not None:
            return key
        if keys.current:
            raise Rejected("the provider has no such key (kid)")
        raise Unverifiable("the token can't be verified now: the provider does not say which keys it has")


def _named(keys: Mapping[str, jwt.PyJWK] | None, kid: object) -> jwt.PyJWK | None:
    return keys.get(kid) if keys is not None and isinstance(kid, str) else None


async def _fetch_keys(fetch: Fetch, issuer: str) -> Mapping[str, jwt.PyJWK]:
    """The provider's keys by name (OpenID Connect Discovery 1.0, 4; RFC 7517). Raises Unverifiable."""
    try:
        about = await fetch(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if about.get("issuer") != issuer:
            raise ValueError("the provider's configuration names another issuer")
        address = about["jwks_uri"]
        if urlsplit(address).scheme not in {"https", urlsplit(issuer).scheme}:
            raise ValueError(f"jwks_uri {str(address)[:200]!r} is no https address")
        return dict(_public_keys((await fetch(address))["keys"]))
    except (
        httpx2.HTTPError,
        httpx2.InvalidURL,
        OSError,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
    ) as error:
        raise Unverifiable(f"the keys of {issuer} can't be read: {type(error).__name__}: {error}") from None


def _public_keys(rows: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, jwt.PyJWK]]:
    """The usable keys; a symmetric one never is."""
    for row in list(rows)[:MOST_KEYS]:
        algorithm, curve, members = _KINDS.get(str(row.get("kty")), ("", None, ()))
        public = {name: row.get(name) for name in members}
        usable = (
            algorithm
            and row.get("use", "sig") == "sig"
            and row.get("crv") == curve
            and all(isinstance(value, str) for value in public.values())
            and ("n" not in public or (len(str(public["n"])) in _MODULUS and len(str(public["e"])) <= 6))
        )
        if usable and isinstance(row.get("kid"), str):
            try:
                data = {"kty": row["kty"], **({"crv": curve} if curve else {}), **public}
                yield row["kid"], jwt.PyJWK(data, algorithm)
            except (jwt.PyJWTError, ValueError):
                continue


def _principal(claims: Mapping[str, Any], plan: Plan) -> Principal:
    subject = claims["sub"]
    if not isinstance(subject, str) or not 1 <= len(subject) <= 255 or not subject.isprintable():
        raise Rejected("the token's sub is empty, too long or has control characters")
    groups = set(_texts(claims, "groups", ()))
    tenants = frozenset(tenant.name for tenant in plan.tenants if groups & set(tenant.oidc_groups))
    name = "scope" if "scope" in claims else "scp"
    scopes = SCOPES & set(_texts(claims, name, SCOPES))
    return Principal(subject=subject, tenants=tenants, scopes=scopes, source="oidc")


def _texts(claims: Mapping[str, Any], name: str, default: Iterable[str]) -> Iterable[str]:
    """A claim that is a list of texts, or of words in one text. Raises Rejected."""
    value = claims.get(name)
    if value is None:
        return default
    listed = value.split() if isinstance(value, str) and name != "groups" else value
    if not isinstance(listed, list) or not all(isinstance(text, str) for text in listed):
        raise Rejected(f"the token's {name} is no list of texts")
    return listed
