"""The words that the HTML page puts around what the model says: counts, gists, rows of small tables.

Sentences about effects and risks are the model's; none are made here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from gpupool.changes import wording
from gpupool.changes.model import FieldChange, PoolChange, PoolState, QuotaChange, TenantChange
from report.html_figures import cost_range
from report.model import EnvironmentReport, NodeEffect, Report, Risk

GIST_FIELDS = 3
"""Changed settings that the line about a pool names; the table below has them all."""
HAPPENINGS = {
    "replaced": "Nodes replaced",
    "deleted": "Nodes deleted",
    "relabelled": "Nodes relabelled in place",
    "restarted": "Pods of the GPU operator restart",
    "started": "Nodes started",
    "stay": "Nodes stay",
}
ORDER = ("added", "removed", "renamed", "changed", "unchanged")


def headline(report: Report) -> str:
    """The whole report in one or two sentences."""
    if not report.changed:
        return "No environment changes."
    changed = f"{len(report.changed)} of {plural(len(report.environments), 'environment')}"
    sentences = [f"{changed} {'changes' if len(report.changed) == 1 else 'change'}."]
    broken = [each.name for each in report.environments if each.invalid.after]
    if broken:
        sentences.append(f"{joined(broken)} can't be used after it.")
    counts = Counter(risk.severity for each in report.environments for risk in each.risks)
    if counts:
        said = [plural(counts[severity], severity) for severity in ("danger", "caution") if counts[severity]]
        sentences.append(f"{joined(said)} to weigh.")
    elif not broken:
        sentences.append("Nothing in it is known to be risky.")
    return " ".join(sentences)


def dangers(report: Report) -> list[tuple[int, EnvironmentReport, Risk]]:
    """Every danger with its environment and the number of that, from 1."""
    return [
        (number, environment, risk)
        for number, environment in enumerate(report.environments, 1)
        for risk in environment.risks
        if risk.severity == "danger"
    ]


def happening(effect: NodeEffect) -> str:
    """A heading for what happens to nodes."""
    return HAPPENINGS.get(effect.kind, effect.kind)


def percent(before: float, after: float) -> str:
    """`3 % more`, `12 % less`; an amount where there was none before."""
    if before == 0:
        return "before nothing"
    return f"{abs(after - before) / before * 100:.0f} % {'more' if after > before else 'less'}"


def disturbed(effects: Sequence[NodeEffect]) -> str:
    """What happens to nodes with running work, shortest: `up to 4 nodes replaced, 2 deleted`, `kept`."""
    totals: dict[str, int | None] = {}
    for effect in effects:
        if effect.disruptive:
            known = totals.get(effect.kind, 0)
            totals[effect.kind] = (
                None if known is None or effect.nodes_max is None else known + effect.nodes_max
            )
    if not totals:
        return "kept"
    return ", ".join(
        f"{'nodes' if most is None else 'up to ' + plural(most, 'node')} {kind}"
        for kind, most in totals.items()
    )


def risk_of(effect: NodeEffect, risks: Iterable[Risk]) -> Risk | None:
    """The risk that says of `effect` what it says itself, so that the page says it once."""
    return next((risk for risk in risks if effect.what and risk.text.endswith(effect.what)), None)


def risks_apart(environment: EnvironmentReport) -> list[Risk]:
    """The risks that stand beside no effect on nodes."""
    beside = [risk_of(effect, environment.risks) for effect in environment.effects]
    return [risk for risk in environment.risks if risk not in beside]


def pools_said(environment: EnvironmentReport) -> str:
    """How many pools changed in which way: `1 added, 2 changed, 4 as before`."""
    return _changes(pool.change for pool in environment.pools)


def tenants_said(environment: EnvironmentReport) -> str:
    """How many tenants changed in which way: `1 changed, 5 as before`."""
    return _changes(tenant.change for tenant in environment.tenants)


def _changes(changes: Iterable[str]) -> str:
    counts = Counter(changes)
    said = {"unchanged": "as before"}
    return ", ".join(f"{counts[change]} {said.get(change, change)}" for change in ORDER if counts[change])


def gist(pool: PoolChange) -> str:
    """What there is to know of a changed pool, on one line."""
    state = pool.after or pool.before
    if pool.before is None or pool.after is None:
        assert state is not None
        return f"{state.gpu}, {state.sharing}, up to {plural(state.nodes_max, 'node')}"
    if pool.renamed_from:
        return f"before {pool.renamed_from}"
    parts = [
        f"{field.name} {field.before or 'not set'} to {field.after or 'not set'}"
        for field in pool.fields[:GIST_FIELDS]
    ]
    more = len(pool.fields) - GIST_FIELDS
    return "; ".join([*parts, *([f"{more} more"] if more > 0 else [])])


def differences(pool: PoolChange) -> list[tuple[str, str | None, str | None]]:
    """Rows of (what, before, after) of a pool that is in both states: settings, and what follows."""
    return settings(pool.fields) + [
        (name, before, after) for name, before, after in _both(pool) if before != after
    ]


def same(pool: PoolChange) -> str:
    """What a pool that is in both states amounts to where that does not differ, on one line."""
    kept = [(name.removeprefix("cost "), after) for name, before, after in _both(pool) if before == after]
    return ", ".join(f"{after} {name}" for name, after in kept)


def quotas(tenants: Iterable[TenantChange]) -> list[tuple[str, QuotaChange]]:
    """Every quota that differs, with the tenant's name."""
    return [(one.name, quota) for one in tenants for quota in one.quota if quota.before != quota.after]


def tenant_settings(tenants: Iterable[TenantChange]) -> list[tuple[str, str | None, str | None]]:
    """Rows of (tenant and setting, before, after); of a tenant that came or went only the budget."""
    rows = []
    for tenant in tenants:
        if tenant.budget.changed:
            rows.append((f"{tenant.name}: budget", tenant.budget.before, tenant.budget.after))
        rows += [(f"{tenant.name}: {field.name}", field.before, field.after) for field in tenant.fields]
    return rows


def settings(fields: Iterable[FieldChange]) -> list[tuple[str, str | None, str | None]]:
    """Rows of (setting, before, after)."""
    return [(field.name, field.before, field.after) for field in fields]


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
        "cost a month": cost_range(state.cost) if state.cost else "an unknown sum",
    }


def amounts(state: PoolState) -> list[tuple[str, str]]:
    """What a pool amounts to that came or went."""
    return [
        ("GPU", state.gpu_title),
        ("sharing", state.sharing),
        ("machines", ", ".join(state.instance_types) or "nodes that exist already"),
        ("nodes", f"{state.nodes_max} at most, {state.warm} kept ready"),
        *_derived(state).items(),
    ]


def days_said(days: int) -> str:
    """How long until a day, or since: `3 days left`, `ends today`, `ended 2 days ago`."""
    if days == 0:
        return "ends today"
    return f"{plural(days, 'day')} left" if days > 0 else f"ended {plural(-days, 'day')} ago"


def capitalised(sentence: str) -> str:
    """With a capital letter in front and no full stop at the end."""
    return (sentence[:1].upper() + sentence[1:]).rstrip(".")


def joined(words: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def plural(count: int, noun: str) -> str:
    """`1 node`, `2 nodes`, `2 cautions`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def age(seconds: int) -> str:
    """How long a pod has been running: `45 s`, `12 min`, `5 h`, `9 d`."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
