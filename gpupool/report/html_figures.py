"""What the HTML page shows in pictures: figures of an environment before and after, and GPUs of a pool.

Turns values of the model into markup that is safe to put into the page. Ids begin with what the caller gives,
as they have to be unique in the page.
"""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from gpupool.drawings import Bar, bars, drawable, svg
from gpupool.drawings.gpu import drawing
from gpupool.money import usd
from gpupool.plan.changes import wording
from gpupool.plan.changes.model import BeforeAfter, Cost, PoolChange, PoolState
from gpupool.report.model import EnvironmentReport

COST = "Cost a month, least to most"


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure before and after, drawn."""

    title: str
    picture: Markup
    change: str
    """How it differs, in words: `+8`, `at least as before, at most +$1,000`."""


@dataclass(frozen=True, slots=True)
class GpuFigure:
    """One GPU of a pool in one state."""

    heading: str
    """Before or After."""
    title: str
    note: str
    there: bool
    """Whether this state has the pool."""
    picture: Markup | None
    """None where the pool is not there or can't be drawn."""


def figures(environment: EnvironmentReport, identity: str) -> tuple[tuple[Figure, ...], str]:
    """Drawn: GPUs, nodes, monthly cost and slices that differ. In words, on one line: those that don't."""
    drawn: list[Figure] = []
    standing: list[str] = []
    counts = [
        ("physical GPUs", environment.gpus),
        ("nodes", environment.nodes),
        *(
            (
                f"slices of {wording.resource_name(resource.resource)}",
                BeforeAfter(resource.before, resource.after),
            )
            for resource in environment.resources
        ),
    ]
    for number, (name, value) in enumerate(counts):
        if value.changed:
            title = name[0].upper() + name[1:]
            drawn.append(_count(title, value, f"{identity}-count-{number}"))
        else:
            standing.append(f"{value.after:,} {name}")
    cost = environment.cost
    if cost.changed:
        drawn.insert(1, _cost(cost, environment.change, f"{identity}-cost"))
    else:
        standing.append(f"{wording.cost_range(cost.after)} a month" if cost.after else "cost unknown")
    return tuple(drawn), ", ".join(standing)


def gpu_figures(pool: PoolChange, identity: str) -> tuple[GpuFigure, GpuFigure] | None:
    """One GPU of the pool before and after; None where neither can be drawn."""
    if drawable(pool.before) is None and drawable(pool.after) is None:
        return None
    return _side("Before", pool.before, identity), _side("After", pool.after, identity)


def _side(heading: str, state: PoolState | None, identity: str) -> GpuFigure:
    what = drawable(state)
    if what is None:
        title = f"{state.gpu}, {state.sharing}: can't be drawn" if state else ""
        return GpuFigure(heading, title, "", state is not None, None)
    gpu_drawing = drawing(*what)
    picture = Markup(svg(*what, f"{identity}-{heading.lower()}"))  # noqa: S704 - escapes what it draws
    return GpuFigure(heading, gpu_drawing.title, gpu_drawing.note, True, picture)


def _count(title: str, value: BeforeAfter[int], identity: str) -> Figure:
    lines = [
        Bar(label, number, number, f"{number:,}")
        for label, number in (("before", value.before), ("after", value.after))
    ]
    return Figure(title, _bars(title, lines, identity), signed(value.after - value.before))


def _cost(value: BeforeAfter[Cost | None], change_of_all: str, identity: str) -> Figure:
    missing = "not there" if change_of_all in ("added", "removed") else "unknown"
    lines = [
        Bar(label, cost.floor, cost.ceiling, wording.cost_range(cost)) if cost else Bar(label, 0, 0, missing)
        for label, cost in (("before", value.before), ("after", value.after))
    ]
    change = "" if missing == "not there" else "a price is unknown"
    if value.before is not None and value.after is not None:
        change = cost_change(value.before, value.after)
    return Figure(COST, _bars(COST, lines, identity), change)


def _bars(title: str, lines: list[Bar], identity: str) -> Markup:
    return Markup(bars(title, lines, identity))  # noqa: S704 - escapes what it draws


def cost_change(before: Cost, after: Cost) -> str:
    """How least and most differ: `at least as before, at most +$1,000`."""
    differences = (("at least", after.floor - before.floor), ("at most", after.ceiling - before.ceiling))
    return ", ".join(f"{name} {_signed_usd(difference)}" for name, difference in differences)


def _signed_usd(difference: float) -> str:
    if difference == 0:
        return "as before"
    return f"{'+' if difference > 0 else '-'}{usd(abs(difference))}"


def signed(difference: int) -> str:
    """`+8`, `-3`, or `as before`."""
    if difference == 0:
        return "as before"
    return f"{'+' if difference > 0 else '-'}{abs(difference):,}"
