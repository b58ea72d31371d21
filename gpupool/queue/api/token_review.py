"""Tokens of pods: the API server of the queue's own cluster says whose they are (TokenReview).

A pod gets one by a projected volume with the queue's audience. Its namespace is the tenant's; an account that
tenants name in access.serviceAccounts acts for those too. This module must not verify a signature itself, and
must not send tokens of other issuers to the API server.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from gpupool.environment.plan.model import Plan
from gpupool.live.cluster.kube_api import ApiError, UnreachableError
from gpupool.queue.api import tokens
from gpupool.queue.api.cache import Cache
from gpupool.queue.api.credentials import Rejected, Unverifiable
from gpupool.queue.api.fetched_value import Renewed
from gpupool.queue.records import Principal

log = structlog.get_logger()

AUDIENCE = "gpupool"
"""What tokens must be made for where queue.auth names no audience."""
SCOPES = frozenset({"jobs:read", "jobs:write", "usage:read"})
REMEMBERED_SECONDS = 10
"""How long a token is accepted or refused without asking again: that of a deleted account works no longer."""
ISSUER_SECONDS = 600
"""How long the cluster's issuer is believed."""
ANSWER_SECONDS = 5
_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
_ABOUT = "/.well-known/openid-configuration"
_UNVERIFIABLE = "tokens of pods can't be verified now"
_PREFIX = "system:serviceaccount:"


class Ask(Protocol):
    """Sends one request to the API server, as `AsyncKubeApi.request` does: the parsed answer. Its user needs
    `create tokenreviews`. Raises ApiError, UnreachableError."""

    def __call__(
        self, method: str, path: str, *, body: Mapping[str, Any] | None = None
    ) -> Awaitable[Mapping[str, Any]]: ...


@dataclass(frozen=True, slots=True)
class _Account:
    """A verified service account."""

    namespace: str
    name: str

    def principal(self, plan: Plan) -> Principal:
        named = f"{self.namespace}/{self.name}"
        tenants = frozenset(
            tenant.name
            for tenant in plan.tenants
            if tenant.namespace == self.namespace or named in tenant.service_accounts
        )
        return Principal(f"{_PREFIX}{self.namespace}:{self.name}", tenants, SCOPES, "pod")


class PodTokens:
    """Verifies tokens of one cluster; remembers for some seconds what the answer was."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._issuer = Renewed(self._about, ISSUER_SECONDS)
        self._found = Cache[bytes, _Account | str](REMEMBERED_SECONDS, at_once=8)

    async def verify(self, token: str, plan: Plan, now: float) -> Principal | None:
        """Who the token stands for; None where another issuer made it. Raises Rejected, and Unverifiable
        where the API server does not say."""
        said = tokens.read(token)
        if said is None or said[1].get("iss") != await self._cluster(said[1].get("iss"), plan, now):
            return None
        tokens.check_times(said[1], now)
        audience = plan.queue.auth_audience or AUDIENCE
        digest = hashlib.sha256(f"{audience}\n{token}".encode()).digest()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                account = await self._found.get(digest, now, lambda: self._review(token, audience))
        except TimeoutError:
            raise Unverifiable(f"{_UNVERIFIABLE}: too many are being verified") from None
        if isinstance(account, str):
            raise Rejected(account)
        return account.principal(plan)

    async def _cluster(self, issuer: object, plan: Plan, now: float) -> str | None:
        """The issuer of the cluster's tokens; None where it is not known, and `issuer` is the provider of
        people's tokens, which need not wait for the API server."""
        known = self._issuer
        if known.value is None and issuer != plan.queue.auth_issuer:
            await known.wait(now)
            if known.value is None:
                raise Unverifiable(f"{_UNVERIFIABLE}: the API server does not say")
        elif now - known.fetched >= ISSUER_SECONDS:
            known.renew(now)
        return known.value

    async def _about(self) -> str:
        return str((await self._answer("GET", _ABOUT, None)).get("issuer"))

    async def _review(self, token: str, audience: str) -> _Account | str:
        """The account, or why there is none."""
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [audience]},
        }
        status = (await self._answer("POST", _REVIEWS, body)).get("status") or {}
        # An API server that knows no audiences leaves them out, and then the token may be for anyone.
        if status.get("authenticated") is not True or audience not in (status.get("audiences") or ()):
            return f"the cluster does not accept the token for {audience!r}: {_reason(status)}"
        username = str((status.get("user") or {}).get("username", ""))
        namespace, _, name = username.removeprefix(_PREFIX).partition(":")
        if not username.startswith(_PREFIX) or not namespace or not name:
            return "the token is of no service account"
        return _Account(namespace, name)

    async def _answer(self, method: str, path: str, body: Mapping[str, Any] | None) -> Mapping[str, Any]:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._ask(method, path, body=body)
        except (ApiError, UnreachableError, TimeoutError) as error:
            log.warning("pods.unverifiable", error=str(error) or type(error).__name__)
            raise Unverifiable(f"{_UNVERIFIABLE}: the API server does not say") from None


def _reason(status: Mapping[str, Any]) -> str:
    return str(status.get("error") or "it is not authenticated")[:200]
