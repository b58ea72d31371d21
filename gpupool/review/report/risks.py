"""What a reviewer must not miss about one environment: a list of rules, each with its sentence.

RULES is the one place where a rule is registered. A rule reads the report's parts and the two plans, never a
file or a cluster; what only a cluster shows is in the report's live part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpupool.environment.money import usd
from gpupool.environment.plan.changes import wording
from gpupool.environment.plan.model import Plan
from gpupool.findings import Category
from gpupool.review.report import capacity_risks, delivery_risks, priority_risks, tenant_risks
from gpupool.review.report.environment_state import kept_pools
from gpupool.review.report.model import EnvironmentReport, Risk, RiskCategory, risk
from gpupool.review.report.policy_risks import policy_risks
from gpupool.review.report.risk_context import RiskContext


def risks(
    report: EnvironmentReport, before: Plan | None, after: Plan | None, cost_threshold: float
) -> tuple[Risk, ...]:
    """All risks, dangers first, otherwise in the order of the rules. A plan is None if its state does not
    exist; both are None if one of the states can't be read."""
    context = RiskContext(report, before, after, cost_threshold)
    found = [risk for rule in RULES for risk in rule(context)]
    return tuple(sorted(found, key=lambda risk: risk.category is not Category.danger))


def _invalid(context: RiskContext) -> Iterator[Risk]:
    if context.report.invalid.after:
        count = len(context.report.invalid.after)
        what = f"{count} finding{'s' if count != 1 else ''}"
        yield risk("invalid", f"{context.report.file} is not valid after the change: {what}", "danger")


def _elsewhere(old: Plan, new: Plan) -> Iterator[Risk]:
    found = [
        f"{name} changes from {was or 'the default'} to {now or 'the default'}"
        for name, was, now in _identity(old, new)
        if was != now
    ]
    if found:
        yield risk("cluster", f"{', '.join(found)}: nodes and jobs are not moved there", "danger")


def _identity(old: Plan, new: Plan) -> tuple[tuple[str, str | None, str | None], ...]:
    """The settings that identify the cluster: name, value before, value after."""
    return (
        ("cluster.platform", old.cluster.platform, new.cluster.platform),
        ("cluster.kubeContext", old.cluster.kube_context, new.cluster.kube_context),
        ("cluster.name", old.cluster.name, new.cluster.name),
        ("cluster.region", old.cluster.region, new.cluster.region),
    )


def _environment_removed(context: RiskContext) -> Iterator[Risk]:
    if context.report.change == "removed":
        yield risk(
            "delete",
            f"{context.report.file} is removed; its objects and nodes stay until they are destroyed, but "
            "no file describes them",
            "danger",
        )


def _nodes(context: RiskContext) -> Iterator[Risk]:
    words = {"replaced": "drain", "deleted": "delete", "relabelled": "relabel", "restarted": "restart"}
    old, new = context.before, context.after
    moved = bool(old and new and any(was != now for _, was, now in _identity(old, new)))
    for effect in context.report.effects:
        # After a move to another cluster its nodes are unknown, so effects that are merely possible are not
        # reported next to the move itself.
        if not effect.disruptive or (moved and not effect.certain):
            continue
        where = f"pool {effect.pool}" if effect.pool else "every pool"
        if effect.node_pool and effect.node_pool != effect.pool:
            where += f" ({effect.node_pool})"
        # A pool without nodes has none to drain now, but may have some by the time of the merge.
        category: RiskCategory = "danger" if effect.certain and effect.nodes_now != 0 else "caution"
        pods = len(effect.pods_at_risk)
        if pods:
            where += f", with {pods} pod{'s' if pods != 1 else ''} on GPUs now"
        yield risk(words.get(effect.kind, effect.kind), f"{where}: {effect.what}", category, effect)


def _renamed(context: RiskContext) -> Iterator[Risk]:
    for pool in context.report.pools:
        if pool.change == "renamed":
            yield risk(
                "rename",
                f"pool {pool.renamed_from} becomes {pool.name}: jobs that name {pool.renamed_from} find "
                "no node, and its nodes are not kept",
                "danger",
            )


def _cost(context: RiskContext) -> Iterator[Risk]:
    cost, limit = context.report.cost, context.cost_threshold
    if context.after is not None and context.before is not None and cost.before and cost.after is None:
        yield risk("cost", "the price of a machine is unknown after the change, so the cost is unknown")
    if cost.before is None or cost.after is None:
        return
    pairs = (
        ("at least", cost.before.floor, cost.after.floor),
        ("at most", cost.before.ceiling, cost.after.ceiling),
    )
    for name, was, now in pairs:
        if now > was and (was == 0 or (now - was) / was * 100 > limit):
            grows = f"{(now - was) / was * 100:+.0f}%" if was else "from nothing"
            yield risk(
                "cost",
                f"the monthly cost is {name} {usd(now)} instead of {usd(was)} ({grows}, more than "
                f"{limit:g}%)",
            )


def _ceiling(old: Plan, new: Plan) -> Iterator[Risk]:
    was, now = old.monthly_usd_max, new.monthly_usd_max
    if was is None:
        return
    if now is None:
        yield risk("budget", f"cost.monthlyUsdMax of {usd(was)} is removed: there is no cost limit")
    elif now > was:
        yield risk("budget", f"cost.monthlyUsdMax goes from {usd(was)} to {usd(now)}")


def _above_maximum(context: RiskContext) -> Iterator[Risk]:
    counts = dict(context.report.live.nodes) if context.report.live else {}
    for pool in context.report.changed_pools:
        now = counts.get(pool.name, 0)
        if pool.before and pool.after and pool.after.nodes_max < min(now, pool.before.nodes_max):
            yield risk(
                "maximum",
                f"pool {pool.name} has {now} nodes now and may have {pool.after.nodes_max}: nodes "
                "above the maximum are not replaced",
            )


def _pool_settings(old: Plan, new: Plan) -> Iterator[Risk]:
    """Settings with no effect at the change itself, but on running work later."""
    for was, pool in kept_pools(old, new):
        if was.expire_after == "Never" and pool.expire_after != "Never":
            yield risk(
                "expire",
                f"pool {pool.name}: nodes are removed {pool.expire_after} after they start, whatever runs "
                "on them; no disruption budget or window applies",
            )
        grace = pool.termination_grace_period
        if grace is not None and grace != was.termination_grace_period:
            yield risk(
                "expire",
                f"pool {pool.name}: pods on removed nodes are terminated after {grace}, regardless of their "
                "grace period or protection",
            )
        if pool.spot_share_max > was.spot_share_max:
            yield risk(
                "spot",
                f"pool {pool.name}: {wording.spot(was)} becomes {wording.spot(pool)}; spot nodes are "
                "reclaimed with two minutes' notice",
            )


def _pool_protection(old: Plan, new: Plan) -> Iterator[Risk]:
    """Settings that protect running work, where they protect it less after the change."""
    for was, pool in kept_pools(old, new):
        if was.window is not None and pool.window is None:
            yield risk(
                "window",
                f"pool {pool.name}: its maintenance window {wording.window(was.window)} is removed, so that "
                "nodes may be replaced at any time",
            )
        if pool.max_unavailable > was.max_unavailable:
            yield risk(
                "window",
                f"pool {pool.name}: up to {pool.max_unavailable} nodes instead of {was.max_unavailable} may "
                "be replaced at once",
            )
        if was.jobs_only and not pool.jobs_only:
            yield risk(
                "jobs",
                f"pool {pool.name} is no longer for Jobs only: endless workloads may keep its GPUs",
            )
        if was.taints and not pool.taints:
            yield risk(
                "taint",
                f"pool {pool.name} no longer has a taint: pods without GPUs may fill its nodes",
            )


def _interruptions(old: Plan, new: Plan) -> Iterator[Risk]:
    was, now = old.karpenter, new.karpenter
    spot = any("spot" in capacity.types for pool in new.pools for capacity in pool.capacities)
    if spot and was and now and was.interruption_queue and not now.interruption_queue:
        yield risk("spot", "karpenter.interruptionQueue is removed: spot nodes are reclaimed without a drain")


def _denied(context: RiskContext) -> Iterator[Risk]:
    denied = [note for note in context.report.findings.new if note.category is Category.deny]
    if denied:
        rules = ", ".join(sorted({note.code for note in denied}))
        noun = "denial" if len(denied) == 1 else "denials"
        yield risk("policy", f"policies deny it: {len(denied)} new {noun} ({rules})", "danger")


def _waivers(context: RiskContext) -> Iterator[Risk]:
    for note in context.report.waivers:
        where = f"in {note.namespace}" if note.namespace else "everywhere"
        if note.change in ("added", "extended") and note.days_left >= 0:
            yield risk(
                "waiver",
                f"{note.policy} is waived {where} until {note.until.isoformat()} ({note.owner}: "
                f"{note.reason})",
            )


def _both(rule: Callable[[Plan, Plan], Iterator[Risk]]) -> Callable[[RiskContext], Iterator[Risk]]:
    """A rule that compares two plans; it reports nothing if there is only one."""
    return lambda context: (
        rule(context.before, context.after) if context.before and context.after else iter(())
    )


RULES: tuple[Callable[[RiskContext], Iterator[Risk]], ...] = (
    _invalid,
    _environment_removed,
    _both(_elsewhere),
    _renamed,
    _nodes,
    _both(delivery_risks.left_behind),
    _both(delivery_risks.engine),
    _both(delivery_risks.removal),
    tenant_risks.tenants,
    tenant_risks.over_quota,
    _above_maximum,
    _both(capacity_risks.overgranted),
    _both(capacity_risks.isolation),
    _both(capacity_risks.downgrades),
    _both(priority_risks.priorities),
    _both(tenant_risks.highest_priority),
    _cost,
    _both(_ceiling),
    tenant_risks.budgets,
    tenant_risks.access,
    _both(_pool_settings),
    _both(_pool_protection),
    _both(_interruptions),
    _waivers,
    _both(policy_risks),
    _denied,
)
