"""What a reviewer must not miss about tenants: quotas, budgets, namespaces, access. Registered in
`gpupool.review.report.risks`."""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.environment.money import usd
from gpupool.environment.plan.changes import wording
from gpupool.environment.plan.model import Plan
from gpupool.review.report.model import Risk, risk
from gpupool.review.report.risk_context import RiskContext


def tenants(context: RiskContext) -> Iterator[Risk]:
    for tenant in context.report.tenants:
        if tenant.change == "removed" and context.after is not None:
            yield risk(
                "tenant",
                f"tenant {tenant.name} is removed: its namespace {tenant.namespace} is deleted with its "
                "contents after confirmation",
                "danger",
            )
            continue
        lowered = [each for each in tenant.quota if each.after < each.before]
        if lowered and tenant.change not in ("added", "removed"):
            text = ", ".join(
                f"{wording.resource_name(each.resource)} from {each.before} to {each.after}"
                for each in lowered
            )
            yield risk(
                "quota",
                f"quota of {tenant.name} falls: {text}. Running workloads keep running; new ones are not "
                "admitted",
            )
        for field in tenant.fields:
            if field.name == "namespace":
                yield risk(
                    "tenant",
                    f"tenant {tenant.name} moves from namespace {field.before} to {field.after}: the "
                    f"contents of {field.before} are not moved, and are deleted after confirmation",
                    "danger",
                )


def borrowing(context: RiskContext) -> Iterator[Risk]:
    """Tenants that may borrow less than before."""
    old = {tenant.name: tenant for tenant in context.before.tenants} if context.before else {}
    for tenant in context.after.tenants if context.after else ():
        was = old[tenant.name].up_to if tenant.name in old else {}
        for pool, most in was.items():
            now = tenant.up_to.get(pool) or tenant.grants.get(pool, {})
            if any(now.get(resource, 0) < count for resource, count in most.items()):
                yield risk(
                    "quota",
                    f"{tenant.name} may use {wording.counts(now)} of {pool} at most, including what it "
                    f"borrows, {wording.counts(most)} before: borrowed jobs above the limit keep running, "
                    "no new ones start",
                )


def over_quota(context: RiskContext) -> Iterator[Risk]:
    for use in context.report.live.over_quota if context.report.live else ():
        yield risk(
            "quota",
            f"{use.tenant} uses {use.used} {wording.resource_name(use.resource)} now, and its quota becomes "
            f"{use.quota}: when those pods end, they are not recreated",
            "danger",
        )


def budgets(context: RiskContext) -> Iterator[Risk]:
    old = {tenant.name: tenant.budget for tenant in context.before.tenants} if context.before else {}
    for tenant in context.after.tenants if context.after else ():
        was, now = old.get(tenant.name), tenant.budget
        if was is None:
            continue
        if now is None:
            yield risk(
                "budget",
                f"budget of {tenant.name}, {wording.budget(was)}, is removed: its spending is no "
                "longer limited",
            )
        elif was.period == now.period and now.usd > was.usd * (1 + context.cost_threshold / 100):
            yield risk(
                "budget",
                f"budget of {tenant.name} goes from {usd(was.usd)} to {usd(now.usd)} a {now.period}",
            )


_CUT = {
    "access.ingressFrom": "pods in {gone} can no longer connect to {tenant}, including present clients",
    "access.serviceAccounts": "{gone} can no longer act for {tenant}: pipelines that use it fail",
    "access.oidcGroups": "members of {gone} lose access to {tenant}",
    "access.exposure": "Services of {tenant} by {gone} can no longer be created or changed",
}
"""What is cut off where an entry goes from a setting; `gone` are the entries."""
_WIDER = {"access.exposure": "Services of {tenant} may be exposed by {wider}"}
"""What is opened where an entry is added to a setting, if it is not an account or a namespace."""


def access(context: RiskContext) -> Iterator[Risk]:
    """Access that is widened, and access that is removed."""
    for tenant in context.report.tenants:
        if tenant.change not in ("changed", "renamed"):
            continue
        for field in tenant.fields:
            if field.name not in _CUT:
                continue
            before, after = _entries(field.before), _entries(field.after)
            if after - before:
                wider = ", ".join(sorted(after - before))
                text = _WIDER.get(field.name, "{wider} may reach or act for {tenant}")
                yield risk("access", text.format(wider=wider, tenant=tenant.name))
            if before - after:
                gone = ", ".join(sorted(before - after))
                yield risk("access", _CUT[field.name].format(gone=gone, tenant=tenant.name))


def _entries(listed: str | None) -> set[str]:
    return set((listed or "").split(", ")) - {""}


def highest_priority(old: Plan, new: Plan) -> Iterator[Risk]:
    """Tenants that may use higher classes than before, or no longer the ones that they did."""
    values = {each.name: each.value for plan in (old, new) for each in plan.priorities}
    highest = {tenant.name: tenant.max_priority for tenant in old.tenants}
    for tenant in new.tenants:
        was, now = highest.get(tenant.name), tenant.max_priority
        if was not in values or now not in values or values[was] == values[now]:
            continue
        higher = values[now] > values[was]
        then = "its pods go before more of the others'" if higher else "new pods above are rejected"
        yield risk("priority", f"{tenant.name} may use priorities up to {now} instead of {was}: {then}")
