"""What the HTML page shows in pictures: figures of an environment before and after, and GPUs of a pool.

Turns values of the model into markup that is safe to put into the page. Ids begin with what the caller gives,
as they have to be unique in the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup

from gpupool.changes import wording
from gpupool.changes.model import BeforeAfter, Cost, PoolChange
from report.drawings import Bar, bars, drawable, svg
from report.drawings.gpu import drawing
from report.model import EnvironmentReport


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure before and after, drawn."""

    title: str
    picture: Markup
    change: str
    """How it differs, in words: `+8`, `up by 12 %`, `as before`."""


@dataclass(frozen=True, slots=True)
class Side:
    """One GPU of a pool in one state."""

    heading: str
    """Before or After."""
    title: str
    note: str
    picture: Markup | None
    """None where the pool is not there, or can't be drawn; `title` says which."""


def figures(environment: EnvironmentReport, identity: str) -> tuple[Figure, ...]:
    """GPUs, monthly cost, and the slices that differ."""
    found = [
        _count("Physical GPUs at most", environment.gpus, f"{identity}-gpus"),
        *_cost(environment.cost, f"{identity}-cost"),
    ]
    for number, one in enumerate(environment.resources):
        if one.before != one.after:
            found.append(
                _count(
                    f"Slices at most: {wording.resource_name(one.resource)}",
                    BeforeAfter(one.before, one.after),
                    f"{identity}-slices-{number}",
                )
            )
    return tuple(found)


def sides(pool: PoolChange, identity: str) -> tuple[Side, Side] | None:
    """One GPU of the pool before and after; None where neither can be drawn."""
    if drawable(pool.before) is None and drawable(pool.after) is None:
        return None
    before, after = _sides(pool, identity)
    return before, after


def _sides(pool: PoolChange, identity: str) -> Iterator[Side]:
    for heading, state in (("Before", pool.before), ("After", pool.after)):
        what = drawable(state)
        if what is None:
            title = "No such pool" if state is None else f"{state.gpu}, {state.sharing}: can't be drawn"
            yield Side(heading, title, "", None)
        else:
            said = drawing(*what)
            picture = Markup(svg(*what, f"{identity}-{heading.lower()}"))  # noqa: S704 - escapes what it draws
            yield Side(heading, said.title, said.note, picture)


def _count(title: str, value: BeforeAfter[int], identity: str) -> Figure:
    lines = [
        Bar(label, number, number, f"{number:,}")
        for label, number in (("before", value.before), ("after", value.after))
    ]
    return Figure(title, _bars(title, lines, identity), signed(value.after - value.before))


def _cost(value: BeforeAfter[Cost | None], identity: str) -> Iterator[Figure]:
    title = "Monthly cost, least to most"
    lines = [
        Bar(label, cost.floor, cost.ceiling, cost_range(cost))
        for label, cost in (("before", value.before), ("after", value.after))
        if cost is not None
    ]
    if not lines:
        return
    change = "a price is unknown"
    if value.before is not None and value.after is not None:
        change = cost_change(value.before.ceiling, value.after.ceiling)
    yield Figure(title, _bars(title, lines, identity), change)


def _bars(title: str, lines: list[Bar], identity: str) -> Markup:
    return Markup(bars(title, lines, identity))  # noqa: S704 - escapes what it draws


def cost_range(cost: Cost) -> str:
    """Floor and ceiling: `$0 to $9,000`; one figure where they are the same."""
    if cost.floor == cost.ceiling:
        return wording.usd(cost.ceiling)
    return f"{wording.usd(cost.floor)} to {wording.usd(cost.ceiling)}"


def cost_change(before: float, after: float) -> str:
    """How the most that can be spent differs: `+$1,000 at most, 12 % more`."""
    if before == after:
        return "at most as before"
    difference = after - before
    said = f"{'+' if difference > 0 else '-'}{wording.usd(abs(difference))} at most"
    if before == 0:
        return said
    return f"{said}, {abs(difference) / before * 100:.0f} % {'more' if difference > 0 else 'less'}"


def signed(difference: int) -> str:
    """`+8`, `-3`, or `as before`."""
    if difference == 0:
        return "as before"
    return f"{'+' if difference > 0 else '-'}{abs(difference):,}"
