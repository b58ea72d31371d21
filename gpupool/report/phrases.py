"""The words that text and Markdown put around what the model says: headlines, counts, rows of small tables.

Sentences about effects and risks are the model's; none are made here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from gpupool.drawings import characters_before_and_after, drawable
from gpupool.plan.changes import wording
from gpupool.plan.changes.model import Cost, PoolChange, PoolState
from gpupool.report.model import EnvironmentReport, NodeEffect, Report, WaiverNote

Row = tuple[str, str, str]
"""What, before, after."""

_ORDER = ("added", "removed", "renamed", "changed", "unchanged")


def headline(report: Report) -> str:
    """The whole report in one or two sentences."""
    if not report.changed:
        return "no environment changes"
    several = len(report.changed) != 1
    changed = f"{len(report.changed)} of {plural(len(report.environments), 'environment')} change"
    said = [changed + ("" if several else "s")]
    broken = [each.name for each in report.environments if each.invalid.after]
    if broken:
        said.append(f"{', '.join(broken)} can't be used")
    counts = Counter(risk.severity for each in report.environments for risk in each.risks)
    said += [plural(counts[name], name) for name in ("danger", "caution") if counts[name]]
    return ", ".join(said if counts or broken else [*said, "no risk is known"])


def disturbed(effects: Sequence[NodeEffect]) -> str:
    """What happens to nodes with running pods, shortest: `up to 4 replaced, up to 2 deleted`."""
    totals: dict[str, int | None] = {}
    for effect in effects:
        if effect.disruptive:
            known = totals.get(effect.kind, 0)
            most = effect.nodes_max
            totals[effect.kind] = None if known is None or most is None else known + most
    if not totals:
        return "no running pod is disturbed"
    return ", ".join(f"{'some' if most is None else f'up to {most}'} {kind}" for kind, most in totals.items())


def changes_said(changes: Iterable[str]) -> str:
    """How many there are of each change: `1 added, 2 changed, 4 as before`."""
    counts = Counter(changes)
    names = {"unchanged": "as before"}
    return ", ".join(f"{counts[name]} {names.get(name, name)}" for name in _ORDER if counts[name])


def figures(environment: EnvironmentReport) -> Iterator[Row]:
    """What the environment amounts to: what differs, and the cost in any case."""
    rows = [
        ("nodes at most", str(environment.nodes.before), str(environment.nodes.after)),
        ("physical GPUs at most", str(environment.gpus.before), str(environment.gpus.after)),
    ]
    rows += [
        (f"{wording.resource_name(each.resource)} slices at most", str(each.before), str(each.after))
        for each in environment.resources
    ]
    yield from (row for row in rows if row[1] != row[2])
    before, after = _cost(environment.cost.before), _cost(environment.cost.after)
    yield "cost a month", before, "the same" if after == before != "-" else after


def _cost(cost: Cost | None) -> str:
    return wording.cost_range(cost) if cost else "-"


def pool_rows(pool: PoolChange) -> Iterator[Row]:
    """What differs in a pool; the figures of an added or removed one."""
    if pool.before and pool.after:
        for field in pool.fields:
            yield field.name, field.before or "-", field.after or "-"
        return
    before, after = _amounts(pool.before), _amounts(pool.after)
    for name in after or before:
        yield name, before.get(name, "-"), after.get(name, "-")


def _amounts(state: PoolState | None) -> dict[str, str]:
    if state is None:
        return {}
    return {
        "GPU": state.gpu_title,
        "sharing": state.sharing,
        "machines": ", ".join(state.instance_types) or "nodes that exist already",
        "nodes at most": f"{state.nodes_max}, {state.warm} of them kept ready",
        "slices at most": wording.counts(state.slices_max),
        "cost a month": _cost(state.cost),
    }


def tenant_rows(environment: EnvironmentReport) -> Iterator[tuple[str, str, str, str, str]]:
    """Tenant, change, what, before, after: one row for each thing that differs."""
    for tenant in environment.changed_tenants:
        rows = [
            (f"quota {wording.resource_name(each.resource)}", str(each.before), str(each.after))
            for each in tenant.quota
            if each.before != each.after
        ]
        if tenant.budget.changed:
            rows.append(("budget", tenant.budget.before or "none", tenant.budget.after or "none"))
        rows += [(field.name, field.before or "-", field.after or "-") for field in tenant.fields]
        for index, row in enumerate(rows or [(f"namespace {tenant.namespace}", "", "")]):
            yield ((tenant.name, tenant.change) if index == 0 else ("", "")) + row


def layout_drawings(environment: EnvironmentReport) -> list[tuple[str, tuple[str, ...]]]:
    """Pool and picture of every MIG layout that comes, goes or changes, as lines."""
    return [
        (pool.name, characters_before_and_after(drawable(pool.before), drawable(pool.after)))
        for pool in environment.changed_pools
        if pool.layout_changed
    ]


def waiver_words(note: WaiverNote) -> str:
    """A waiver on one line."""
    where = f"in {note.namespace}" if note.namespace else "everywhere"
    change = "" if note.change == "unchanged" else f"{note.change}: "
    until = f"until {note.until.isoformat()}, {days_said(note.days_left)}"
    return f"{change}{note.policy} is waived {where} {until} ({note.owner}: {note.reason})"


def days_said(left: int) -> str:
    if left == 0:
        return "ends today"
    return f"{plural(left, 'day')} left" if left > 0 else f"ended {plural(-left, 'day')} ago"


def plural(count: int, noun: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def age(seconds: int) -> str:
    """How long a pod has been running: `45 s`, `12 min`, `5 h`, `9 d`."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
