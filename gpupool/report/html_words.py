"""The words that the HTML page puts around what the model says: counts, summaries, rows of small tables.

Sentences about effects and risks are the model's; none are made here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from gpupool.money import usd
from gpupool.plan.changes import wording
from gpupool.plan.changes.model import PoolChange, PoolState, ResourceChange, SettingChange, TenantChange
from gpupool.report import phrases
from gpupool.report.model import EffectKind, EnvironmentReport, FindingChanges, NodeEffect, Report, Risk

SHOWN = 6
"""Dangers that the summary lists; all of them are listed where they belong."""
GIST_FIELDS = 3
"""Changed settings that the line about a pool names; the table below has them all."""
HAPPENINGS: Mapping[EffectKind, str] = {
    "replaced": "Nodes replaced",
    "deleted": "Nodes deleted",
    "relabelled": "Nodes relabelled in place",
    "restarted": "Pods of the GPU operator restart",
    "started": "Nodes started",
    "stay": "Nodes stay",
}
"""Headings for what happens to nodes."""


def dangers(report: Report) -> list[tuple[int, EnvironmentReport, Risk]]:
    """Every danger with its environment and the number of that, from 1."""
    return [
        (number, environment, risk)
        for number, environment in enumerate(report.environments, 1)
        for risk in environment.risks
        if risk.severity == "danger"
    ]


def percent(before: float, after: float) -> str:
    """`3% more`, `12% less`; an amount where there was none before."""
    if before == 0:
        return "before nothing"
    return f"{abs(after - before) / before * 100:.0f}% {'more' if after > before else 'less'}"


def with_risks(environment: EnvironmentReport) -> list[tuple[NodeEffect, Risk | None]]:
    """Every effect with the risk that says the same of it, so that the page says it once."""
    risks = {id(risk.effect): risk for risk in environment.risks if risk.effect is not None}
    return [(effect, risks.get(id(effect))) for effect in environment.effects]


def risks_apart(environment: EnvironmentReport) -> list[Risk]:
    """The risks that stand beside no effect on nodes."""
    return [risk for risk in environment.risks if risk.effect is None]


def gist(pool: PoolChange) -> str:
    """A changed pool on one line."""
    state = pool.after or pool.before
    if pool.before is None or pool.after is None:
        assert state is not None
        return f"{state.gpu}, {state.sharing}, up to {phrases.plural(state.nodes_max, 'node')}"
    if pool.renamed_from:
        return f"before {pool.renamed_from}"
    parts = [
        f"{field.name} {field.before or 'not set'} to {field.after or 'not set'}"
        for field in pool.fields[:GIST_FIELDS]
    ]
    more = len(pool.fields) - GIST_FIELDS
    return "; ".join([*parts, *([f"{more} more"] if more > 0 else [])])


def differences(pool: PoolChange) -> list[SettingChange]:
    """What differs in a pool that is in both states: settings, and what follows."""
    followed = (SettingChange(*row) for row in _both(pool))
    return [*pool.fields, *(field for field in followed if field.before != field.after)]


def same(pool: PoolChange) -> str:
    """The figures of a pool that are equal in both states, on one line."""
    kept = [(name.removeprefix("cost "), after) for name, before, after in _both(pool) if before == after]
    return ", ".join(f"{after} {name}" for name, after in kept)


def quotas(tenants: Iterable[TenantChange]) -> list[tuple[str, ResourceChange]]:
    """Every quota that differs, with the tenant's name."""
    return [
        (tenant.name, quota) for tenant in tenants for quota in tenant.quota if quota.before != quota.after
    ]


def tenant_settings(tenants: Iterable[TenantChange]) -> Iterator[SettingChange]:
    """Settings by tenant and name; of a tenant that came or went only the budget."""
    for tenant in tenants:
        if tenant.budget.changed:
            yield SettingChange(f"{tenant.name}: budget", tenant.budget.before, tenant.budget.after)
        for field in tenant.fields:
            yield dataclasses.replace(field, name=f"{tenant.name}: {field.name}")


def _both(pool: PoolChange) -> Iterator[tuple[str, str, str]]:
    assert pool.before is not None
    assert pool.after is not None
    after = _derived(pool.after)
    for name, before in _derived(pool.before).items():
        yield name, before, after[name]


def _derived(state: PoolState) -> dict[str, str]:
    return {
        "GPUs at most": f"{state.gpus_max}",
        "slices at most": wording.counts(state.slices_max),
        "cost a month": wording.cost_range(state.cost) if state.cost else "an unknown sum",
    }


def amounts(state: PoolState) -> list[tuple[str, str]]:
    """The settings and figures of an added or removed pool."""
    return [
        ("GPU", state.gpu_title),
        ("sharing", state.sharing),
        ("machines", ", ".join(state.instance_types) or "nodes that exist already"),
        ("nodes", f"{state.nodes_max} at most, {state.warm} kept ready"),
        *_derived(state).items(),
    ]


def capitalised(sentence: str) -> str:
    """With a capital letter in front, unless it begins with a name, and with no full stop at the end."""
    first, _, _ = sentence.partition(" ")
    return (sentence[:1].upper() + sentence[1:] if first.isalpha() else sentence).rstrip(".")


def counted_findings(findings: FindingChanges) -> str:
    """`2 new, 1 fixed, 14 as before`, without zeros."""
    counts = ((len(findings.new), "new"), (len(findings.fixed), "fixed"), (findings.remaining, "as before"))
    return ", ".join(f"{count} {what}" for count, what in counts if count)


def ceiling(environment: EnvironmentReport) -> tuple[str, str]:
    """What is spent at most after the change, and how that differs from before."""
    before, after = environment.cost.before, environment.cost.after
    if environment.change == "removed":
        return "nothing", f"before at most {usd(before.ceiling)}" if before else ""
    if after is None:
        return "unknown", ""
    said = f"at most {usd(after.ceiling)}"
    if before is None or environment.change == "added":
        return said, "new" if environment.change == "added" else "before unknown"
    return said, "as before" if before.ceiling == after.ceiling else percent(before.ceiling, after.ceiling)
