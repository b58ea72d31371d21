"""The words that the HTML page puts around what the model says: counts, gists, rows of small tables.

Sentences about effects and risks are the model's; none are made here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from gpupool.changes import wording
from gpupool.changes.model import PoolChange, PoolState
from report.html_figures import cost_range
from report.model import EnvironmentReport, NodeEffect, Report, Risk

GIST_FIELDS = 3
"""Changed settings that the line about a pool names; the table below has them all."""
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


def disturbed(effects: Sequence[NodeEffect]) -> str:
    """What happens to nodes, shortest: `up to 4 replaced, 2 deleted`, or `none`."""
    totals: dict[str, int | None] = {}
    for effect in effects:
        if effect.disruptive:
            known = totals.get(effect.kind, 0)
            totals[effect.kind] = (
                None if known is None or effect.nodes_max is None else known + effect.nodes_max
            )
    if not totals:
        return "none"
    return ", ".join(f"{kind} {'some' if most is None else f'up to {most}'}" for kind, most in totals.items())


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
    parts = [f"before {pool.renamed_from}"] if pool.renamed_from else []
    parts += [
        f"{field.name} {field.before or 'not set'} to {field.after or 'not set'}"
        for field in pool.fields[:GIST_FIELDS]
    ]
    more = len(pool.fields) - GIST_FIELDS
    return "; ".join([*parts, *([f"{more} more"] if more > 0 else [])])


def amounts(pool: PoolChange) -> Iterator[tuple[str, str, str]]:
    """Rows of (what, before, after) of a pool; empty text on the side where it is not there."""
    before = _amounts(pool.before) if pool.before else {}
    after = _amounts(pool.after) if pool.after else {}
    for name in after or before:
        yield name, before.get(name, ""), after.get(name, "")


def _amounts(state: PoolState) -> dict[str, str]:
    return {
        "GPU": state.gpu_title,
        "Sharing": state.sharing,
        "Machines": ", ".join(state.instance_types) or "nodes that exist already",
        "Nodes": f"{state.nodes_max}, {state.warm} kept ready",
        "GPUs": f"{state.gpus_max}, {state.gpus_per_node} a node",
        "Slices": wording.counts(state.slices_max),
        "Cost a month": cost_range(state.cost) if state.cost else "unknown",
    }


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
