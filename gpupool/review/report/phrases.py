"""Numbers and counts in words, for every part of a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from gpupool.environment.money import usd
from gpupool.environment.plan.changes.model import BeforeAfter, Cost
from gpupool.review.report.model import NodeEffect

_ORDER = ("added", "removed", "renamed", "changed", "unchanged")
_SAME = "as before"


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


def counted_changes(changes: Iterable[str]) -> str:
    """How many there are of each change: `1 added, 2 changed, 4 as before`."""
    counts = Counter(changes)
    names = {"unchanged": _SAME}
    return ", ".join(f"{counts[name]} {names.get(name, name)}" for name in _ORDER if counts[name])


def platform(platforms: BeforeAfter[str | None]) -> str:
    """` on eks, before on static`; empty where no state says."""
    after = f" on {platforms.after or platforms.before}" if platforms.after or platforms.before else ""
    moved = platforms.changed and platforms.before and platforms.after
    return f"{after}, before on {platforms.before}" if moved else after


def days_left(days: int) -> str:
    if days == 0:
        return "ends today"
    return f"{plural(days, 'day')} left" if days > 0 else f"ended {plural(-days, 'day')} ago"


def plural(count: int, noun: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def age(seconds: int) -> str:
    """How long a pod has been running: `45 s`, `12 min`, `5 h`, `9 d`."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def percent(before: float, after: float) -> str:
    """`3% more`, `12% less`, `as before`; an amount where there was none before."""
    if before == after:
        return _SAME
    if before == 0:
        return "before nothing"
    return f"{abs(after - before) / before * 100:.0f}% {'more' if after > before else 'less'}"


def signed(difference: int) -> str:
    """`+8`, `-3`, or `as before`."""
    return f"{difference:+,}" if difference else _SAME


def cost_change(before: Cost, after: Cost) -> str:
    """How least and most differ: `at least as before, at most +$1,000`."""
    differences = (("at least", after.floor - before.floor), ("at most", after.ceiling - before.ceiling))
    return ", ".join(f"{name} {_signed_usd(difference)}" for name, difference in differences)


def _signed_usd(difference: float) -> str:
    if difference == 0:
        return _SAME
    return f"{'+' if difference > 0 else '-'}{usd(abs(difference))}"


def capitalised(sentence: str) -> str:
    """With a capital letter in front, unless it begins with a name, and with no full stop at the end."""
    first, _, _ = sentence.partition(" ")
    return (sentence[:1].upper() + sentence[1:] if first.isalpha() else sentence).rstrip(".")
