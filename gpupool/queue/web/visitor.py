"""Who looks at a page, and what may be shown to them: a session, a proxy's credential or, with `--dev`, none.

Other tenants are shown as "another tenant", and ids of their jobs not at all. This module must not render.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Query, Request

from gpupool.environment.plan.model import Plan
from gpupool.queue.api import auth
from gpupool.queue.api.accept import scope_of
from gpupool.queue.api.context import RequestContext, present
from gpupool.queue.api.problems import ApiProblem
from gpupool.queue.api.streaming import Still
from gpupool.queue.records import Principal
from gpupool.queue.web import session

_ID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
OTHER = "another tenant"


class SignInNeeded(Exception):
    """The page is for those who have signed in."""


@dataclass(frozen=True, slots=True)
class Visitor:
    principal: Principal
    signed_in: bool
    """Whether by a session, which can be ended."""
    tenants: tuple[str, ...]
    """Those of the Plan that the credential acts for."""
    chosen: str | None
    """The one that the page is narrowed to."""

    @property
    def sees_all(self) -> bool:
        return self.principal.acts_for("*")

    @property
    def scope(self) -> frozenset[str] | None:
        """Tenants whose jobs are listed; None for all."""
        return scope_of(self.principal, self.chosen)

    def needs(self, scope: str) -> None:
        if not self.principal.may(scope):
            raise ApiProblem("insufficient-scope", f"the key lacks the scope {scope}")

    def name(self, tenant: str) -> str:
        """The tenant as it may be shown."""
        return tenant if self.principal.acts_for(tenant) else OTHER

    def text(self, said: str | None, plan: Plan, *own: str) -> str:
        """A sentence of the queue without other tenants' names and ids. `own`: ids that may be seen."""
        if said is None or self.sees_all:
            return said or ""
        said = _ID.sub(lambda found: found[0] if found[0] in own else "(hidden)", said)
        for tenant in plan.tenants:
            if not self.principal.acts_for(tenant.name):
                said = re.sub(rf"(?<![\w-]){re.escape(tenant.name)}(?![\w-])", OTHER, said)
        return said


async def _session(context: RequestContext, request: Request) -> Principal | None:
    """Who has signed in, where the request has no credential beside the session."""
    if "authorization" in request.headers or "x-api-key" in request.headers:
        return None
    principal = await session.resume(context, request)
    if principal is None and not context.dev:
        raise SignInNeeded
    return principal


async def _principal(context: RequestContext, request: Request) -> tuple[Principal, bool]:
    principal = await _session(context, request)
    if principal is None:
        return await auth.principal(context, request), False
    auth.within_rate(context, principal)
    return principal, True


def still(context: RequestContext, request: Request, visitor: Visitor) -> Still:
    """Whether the request is still of the same visitor."""

    async def same() -> bool:
        principal = await _session(context, request)
        return (principal or await auth.verified(context, request)) == visitor.principal

    return same


async def visitor(
    context: Annotated[RequestContext, Depends(present)],
    request: Request,
    tenant: Annotated[str, Query(max_length=200)] = "",
) -> Visitor:
    """Who looks. Raises SignInNeeded, ApiProblem."""
    principal, signed_in = await _principal(context, request)
    tenants = tuple(one.name for one in context.plan().tenants if principal.acts_for(one.name))
    if tenant and tenant not in tenants:
        raise ApiProblem("not-found", f"there is no tenant {tenant[:100]!r}")
    found = Visitor(principal, signed_in, tenants, tenant or None)
    found.needs("jobs:read")
    return found


CurrentVisitor = Annotated[Visitor, Depends(visitor)]
