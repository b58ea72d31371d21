"""What a reviewer must not miss about tenants: quotas, budgets, namespaces, access. Registered in
`report.risks`."""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.changes import wording
from report.model import Risk
from report.risk_context import Context


def tenants(context: Context) -> Iterator[Risk]:
    for tenant in context.report.tenants:
        if tenant.change == "removed" and context.after is not None:
            yield Risk(
                "danger",
                "tenant",
                f"tenant {tenant.name} is removed: its namespace {tenant.namespace} goes with everything in "
                "it, once that is consented to",
            )
            continue
        lowered = [each for each in tenant.quota if each.after < each.before]
        if lowered and tenant.change not in ("added", "removed"):
            text = ", ".join(
                f"{wording.resource_name(each.resource)} from {each.before} to {each.after}"
                for each in lowered
            )
            yield Risk(
                "caution",
                "quota",
                f"quota of {tenant.name} falls: {text}. What runs above it runs on, nothing new starts",
            )
        for field in tenant.fields:
            if field.name == "namespace":
                yield Risk(
                    "danger",
                    "tenant",
                    f"tenant {tenant.name} moves from namespace {field.before} to {field.after}: what is in "
                    f"{field.before} stays behind, and goes once that is consented to",
                )


def over_quota(context: Context) -> Iterator[Risk]:
    for use in context.report.live.over_quota if context.report.live else ():
        yield Risk(
            "danger",
            "quota",
            f"{use.tenant} uses {use.used} {wording.resource_name(use.resource)} now, and its quota becomes "
            f"{use.quota}: when those pods go, they don't come back",
        )


def budgets(context: Context) -> Iterator[Risk]:
    old = {tenant.name: tenant.budget for tenant in context.before.tenants} if context.before else {}
    for tenant in context.after.tenants if context.after else ():
        was, now = old.get(tenant.name), tenant.budget
        if was is None:
            continue
        if now is None:
            yield Risk(
                "caution",
                "budget",
                f"budget of {tenant.name} ({wording.budget(was)}) is removed: nothing bounds what it spends",
            )
        elif was.period == now.period and now.usd > was.usd * (1 + context.cost_threshold / 100):
            yield Risk(
                "caution",
                "budget",
                f"budget of {tenant.name} goes from {wording.usd(was.usd)} to {wording.usd(now.usd)} a "
                f"{now.period}",
            )


def access(context: Context) -> Iterator[Risk]:
    for tenant in context.report.tenants:
        if tenant.change not in ("changed", "renamed"):
            continue
        for field in tenant.fields:
            wider = set((field.after or "").split(", ")) - set((field.before or "").split(", ")) - {""}
            if field.name.startswith("access.") and wider:
                yield Risk(
                    "caution", "access", f"{', '.join(sorted(wider))} may reach or act for {tenant.name}"
                )
