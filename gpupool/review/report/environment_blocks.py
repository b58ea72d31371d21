"""What a report says of one environment, as blocks: risks, figures, nodes, pools, tenants, settings,
policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from gpupool.environment.drawings import Bar
from gpupool.environment.plan.changes import wording
from gpupool.environment.plan.changes.model import BeforeAfter, Cost
from gpupool.findings import Category, Finding
from gpupool.review.report import phrases
from gpupool.review.report.blocks import (
    AlertLine,
    AlertLines,
    Amount,
    Amounts,
    Block,
    Column,
    FindingLine,
    FindingLines,
    Groups,
    NodeStep,
    NodeSteps,
    Paragraph,
    Piece,
    Section,
    Table,
    ValueChanges,
    Words,
    words,
)
from gpupool.review.report.group_blocks import change_of, pool_group, tenant_group
from gpupool.review.report.model import (
    EffectKind,
    EnvironmentReport,
    FindingChanges,
    LiveState,
    NodeEffect,
    PodAtRisk,
    Risk,
    WaiverNote,
)

if TYPE_CHECKING:
    from gpupool.queue.simulate.figures import RunFigures

_HAPPENINGS: Mapping[EffectKind, str] = {
    "replaced": "Nodes replaced",
    "deleted": "Nodes deleted",
    "relabelled": "Nodes relabelled in place",
    "restarted": "Pods of the GPU operator restart",
    "started": "Nodes started",
    "stay": "Nodes stay",
}
_PODS = (
    Column("Pod"), Column("Tenant"), Column("Asks for"), Column("Running", number=True),
    Column("Comes back"), Column("Node"),
)  # fmt: skip
_WAIVERS = tuple(map(Column, ("Policy", "Where", "Owner", "Until", "Change", "Reason")))


def blocks_of(environment: EnvironmentReport) -> Iterator[Block]:
    """In the order in which they are to be read."""
    yield from _unusable(environment.invalid)
    if environment.risks:
        yield AlertLines([_alert(risk) for risk in environment.risks])
    compared = environment.change != "unchanged" and not environment.invalid.after
    if compared and (environment.pools or environment.settings):
        yield Amounts("Capacity, with every pool at its maximum", tuple(figures(environment)))
    if environment.effects:
        severities = {id(risk.effect): risk for risk in environment.risks if risk.effect is not None}
        steps = NodeSteps([_step(effect, severities.get(id(effect))) for effect in environment.effects])
        happens = "What happens to nodes, in this order"
        yield Section(happens, (steps,), phrases.disturbed(environment.effects), "if short of room")
    if environment.notes:
        yield Section("Good to know", [Paragraph(words(note)) for note in environment.notes])
    if environment.changed_pools:
        gist = phrases.counted_changes(pool.change for pool in environment.pools)
        groups = Groups("pool", [pool_group(pool) for pool in environment.changed_pools])
        yield Section("Pools", (groups,), gist, "if short of room")
    if environment.live is not None:
        yield from _live(environment.live)
    if environment.changed_tenants:
        gist = phrases.counted_changes(tenant.change for tenant in environment.tenants)
        yield Section(
            "Tenants",
            (Groups("tenant", [tenant_group(tenant) for tenant in environment.changed_tenants]),),
            gist,
        )
    if environment.simulated is not None:
        yield _simulated(environment.simulated)
    if environment.settings:
        rows = [change_of(field, code=True) for field in environment.settings]
        gist = phrases.plural(len(rows), "change")
        yield Section("Other settings", (ValueChanges(f"Settings of {environment.name}", rows),), gist)
    if policy := findings(environment.findings):
        yield policy
    elif environment.findings.remaining and environment.change != "unchanged":
        count = phrases.plural(environment.findings.remaining, "finding")
        yield Paragraph(words(f"Policy: {count}, as before."), quiet=True)
    if environment.waivers:
        table = Table(
            "Waivers that end soon, have ended, or change",
            _WAIVERS,
            [_waiver(waiver) for waiver in environment.waivers],
        )
        yield Section("Waivers", (table,), f"{len(environment.waivers)} to know of")


def _simulated(runs: BeforeAfter[RunFigures]) -> Section:
    """What jobs of a trace come to."""
    from gpupool.queue.simulate import words as simulated

    before, after = dict(simulated.summary(runs.before)), dict(simulated.summary(runs.after))
    names = dict.fromkeys([*before, *after])
    rows = [(words(name), words(before.get(name, "-")), words(after.get(name, "-"))) for name in names]
    changes = list(simulated.differences(runs.before, runs.after)) or ["nothing differs"]
    table = Table("Figures of both", (Column("Figure"), Column("Before"), Column("After")), rows)
    sentences = [Paragraph(words(f"{change}.")) for change in changes]
    return Section("Jobs of the trace", (*sentences, table), "; ".join(changes[:2]))


def _unusable(invalid: BeforeAfter[tuple[Finding, ...]]) -> Iterator[Section]:
    for title, notes in (
        ("The file is not valid after the change", invalid.after),
        ("The file was not valid before", invalid.before),
    ):
        if notes:
            nothing = Paragraph(words("There is nothing to compare."))
            yield Section(
                title, (nothing, FindingLines([_finding("", note) for note in notes])), fold="never"
            )


def _alert(risk: Risk) -> AlertLine:
    return AlertLine(risk.category, risk.code, risk.what, in_step=risk.effect is not None)


def figures(environment: EnvironmentReport) -> Iterator[Amount]:
    """What the environment amounts to."""
    counts = [("nodes", environment.nodes), ("physical GPUs", environment.gpus)]
    counts += [
        (
            f"slices of {wording.resource_name(resource.resource)}",
            BeforeAfter(resource.before, resource.after),
        )
        for resource in environment.resources
    ]
    for name, count in counts:
        bars = (_bar("before", count.before), _bar("after", count.after))
        yield Amount(
            name, f"{count.before:,}", f"{count.after:,}", phrases.signed(count.after - count.before), bars
        )
    cost = environment.cost
    missing = "not there" if environment.change in ("added", "removed") else "unknown"
    before, after = (_cost_bar(label, value, missing) for label, value in _labelled(cost))
    difference = "" if missing == "not there" else "a price is unknown"
    if cost.before is not None and cost.after is not None:
        difference = phrases.cost_change(cost.before, cost.after)
    yield Amount("cost a month", before.said, after.said, difference, (before, after), always=True)


def _labelled(cost: BeforeAfter[Cost | None]) -> tuple[tuple[str, Cost | None], ...]:
    return (("before", cost.before), ("after", cost.after))


def _bar(label: str, count: int) -> Bar:
    return Bar(label, count, count, f"{count:,}")


def _cost_bar(label: str, cost: Cost | None, missing: str) -> Bar:
    return (
        Bar(label, cost.floor, cost.ceiling, wording.cost_range(cost)) if cost else Bar(label, 0, 0, missing)
    )


def _step(effect: NodeEffect, risk: Risk | None) -> NodeStep:
    where = effect.pool or "GPU nodes of every pool"
    if effect.node_pool and effect.node_pool != effect.pool:
        where = f"{where} (NodePool {effect.node_pool})"
    likely = "" if effect.certain else "; this is likely, not certain"
    table = None
    if effect.pods_at_risk:
        title = f"{phrases.plural(len(effect.pods_at_risk), 'pod')} with GPUs there now"
        table = Table(title, _PODS, [_pod(pod) for pod in effect.pods_at_risk])
    return NodeStep(
        _HAPPENINGS[effect.kind],
        Piece(where, "name"),
        effect.what,
        effect.reason + likely,
        risk.category if risk else None,
        effect.disruptive,
        table,
    )


def _pod(pod: PodAtRisk) -> list[Words]:
    back = words(f"by {pod.owner}") if pod.owner else words(Piece("no, nothing owns it", "strong"))
    return [
        words(Piece(f"{pod.namespace}/{pod.name}", "name")),
        words(pod.tenant or "none"),
        words(pod.requests),
        words(phrases.age(pod.age_seconds)),
        (*back, *words("; protected by do-not-disrupt" if pod.protected else "")),
        words(Piece(pod.node, "name")),
    ]


def _live(live: LiveState) -> Iterator[Section]:
    blocks = []
    if live.nodes:
        rows = [[words(Piece(pool.pool, "name")), words(f"{pool.nodes:,}")] for pool in live.nodes]
        blocks.append(Table("Nodes now", (Column("Pool"), Column("Nodes now", number=True)), rows))
    if live.over_quota:
        rows = [
            [
                words(Piece(use.tenant, "name")),
                words(wording.resource_name(use.resource)),
                words(f"{use.used:,}"),
                words(f"{use.quota:,}"),
            ]
            for use in live.over_quota
        ]
        columns = (
            Column("Tenant"),
            Column("Resource"),
            Column("Runs now", number=True),
            Column("Quota after", number=True),
        )
        title = (
            "Quota below present use; nothing is evicted, and nothing new starts until use is below the quota"
        )
        blocks.append(Table(title, columns, rows))
    if blocks:
        yield Section(f"In the cluster {live.cluster} now", blocks, fold="if short of room")


def findings(changes: FindingChanges) -> Section | None:
    """What policy says that it did not say before, or no longer; None where there is neither."""
    if not (changes.new or changes.fixed):
        return None
    counts = ((len(changes.new), "new"), (len(changes.fixed), "fixed"), (changes.remaining, "as before"))
    gist = ", ".join(f"{count} {change}" for count, change in counts if count)
    rows = [_finding("new", note) for note in changes.new] + [
        _finding("fixed", note) for note in changes.fixed
    ]
    grave = any(note.category is not Category.audit for note in changes.new)
    return Section("Policy", (FindingLines(rows),), gist, "if short of room" if grave else "always")


def _finding(change: str, note: Finding) -> FindingLine:
    pieces: list[str | Piece] = [Piece(note.code, "code")]
    if about := note.object or note.place:
        pieces += [" on ", Piece(about, "name")]
    if note.path:
        pieces += [" at ", Piece(note.path, "code")]
    return FindingLine(change, note.category, words(*pieces), note.what, note.remediation)


def _waiver(waiver: WaiverNote) -> list[Words]:
    return [
        words(Piece(waiver.policy, "code")),
        words(waiver.namespace or "everywhere"),
        words(Piece(waiver.owner, "name")),
        words(f"{waiver.until.isoformat()}, {phrases.days_left(waiver.days_left)}"),
        words(waiver.change),
        words(Piece(waiver.reason, "name")),
    ]
