"""Charts of use and money over days, and a job's timeline, as shapes that templates draw (parts.html.j2).

They stretch to the page's width, so words and figures stand beside them in HTML. Text that a picture has is
its label for those who don't see it. No database and no markup here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import NamedTuple

from gpupool.queue.records import Job
from gpupool.queue.store.attempts import StoredAttempt
from gpupool.queue.store.spending import DayOfUse

WIDTH, HEIGHT = 600, 120
TIMELINE = 1000


class ChartBar(NamedTuple):
    kind: str
    x: float
    y: float
    width: float
    height: float


class Picture(NamedTuple):
    """Bars on an axis; and for a budget a line at its limit."""

    label: str
    bars: Sequence[ChartBar]
    limit: float | None = None


class ChartFigure(NamedTuple):
    """A picture with what stands beside it."""

    picture: Picture
    most: float
    """Value of its upper edge."""
    first: date
    last: date


def per_day(
    rows: Sequence[DayOfUse], value: str, label: str, days: Sequence[date], colours: Mapping[str, str]
) -> ChartFigure | None:
    """A column for each day, one part for each tenant. `value`: the field that is drawn. None: all zero."""
    by_day: dict[date, list[DayOfUse]] = {}
    for row in rows:
        by_day.setdefault(row.day, []).append(row)
    most = max((sum(getattr(row, value) for row in on_day) for on_day in by_day.values()), default=0)
    if not most:
        return None
    step = WIDTH / len(days)
    bars = []
    for index, day in enumerate(days):
        bottom = float(HEIGHT)
        for row in by_day.get(day, ()):
            tall = getattr(row, value) / most * (HEIGHT - 2)
            bottom -= tall
            bars.append(ChartBar(f"held {colours[row.tenant]}", index * step + 1.5, bottom, step - 3, tall))
    return ChartFigure(Picture(label, bars), most, days[0], days[-1])


def shares(steps: Sequence[float | None]) -> list[ChartBar]:
    """A column for each step of which there is a share; the upper edge is the whole."""
    wide = WIDTH / len(steps)
    return [
        ChartBar("spent", index * wide + 1, HEIGHT * (1 - share), wide - 2, HEIGHT * share)
        for index, share in enumerate(steps)
        if share is not None
    ]


def budget(
    spent: Mapping[date, int], held: int, limit: int, days: Sequence[date], today: date, label: str
) -> Picture:
    """What a budget's period has cost so far, day by day, what is held on top, and the limit as a line."""
    total, sums = 0, []
    for day in days:
        if day > today:
            break
        total += spent.get(day, 0)
        sums.append(total)
    top = max(limit, total + held) * 1.05 or 1
    step = WIDTH / len(days)
    bars = []
    for index, value in enumerate(sums):
        tall = value / top * HEIGHT
        bars.append(ChartBar("spent", index * step, HEIGHT - tall, step, tall))
    if held and sums:
        low, high = HEIGHT - total / top * HEIGHT, held / top * HEIGHT
        bars.append(ChartBar("hold", (len(sums) - 1) * step, low - high, step, high))
    return Picture(label, bars, HEIGHT - limit / top * HEIGHT)


def period_days(period: str, today: date) -> list[date]:
    """All days of the present period of a budget."""
    if period == "day":
        return [today]
    if period == "week":
        monday = today - timedelta(days=today.weekday())
        return [monday + timedelta(days=index) for index in range(7)]
    first = today.replace(day=1)
    following = (first + timedelta(days=32)).replace(day=1)
    return [first + timedelta(days=index) for index in range((following - first).days)]


@dataclass(frozen=True, slots=True)
class AttemptStep:
    """A stretch of a job's life."""

    kind: str
    """waits, starts or runs."""
    begin: datetime
    end: datetime
    open: bool
    """It goes on."""

    @property
    def seconds(self) -> float:
        return (self.end - self.begin).total_seconds()


class Stretch(NamedTuple):
    """One attempt on the timeline."""

    attempt: StoredAttempt | None
    """None for a wait that no attempt has ended."""
    steps: Sequence[AttemptStep]
    picture: Picture


def timeline(job: Job, attempts: Sequence[StoredAttempt], now: datetime) -> list[Stretch]:
    """Each attempt with the wait before it, all on one scale from the job's acceptance to its end or now."""
    over = job.finished_at
    end = max(over or now, job.enqueued_at + timedelta(milliseconds=1))
    at = attempts[0].dispatched_at if attempts and attempts[0].attempt > 1 else job.enqueued_at
    rows: list[tuple[StoredAttempt | None, list[AttemptStep]]] = []
    for one in attempts:
        steps = [AttemptStep("waits", at, one.dispatched_at, False)]
        stop = one.finished_at or end
        steps.append(
            AttemptStep("starts", one.dispatched_at, one.started_at or stop, one.finished_at is None)
        )
        if one.started_at:
            steps[-1] = AttemptStep("starts", one.dispatched_at, one.started_at, False)
            steps.append(AttemptStep("runs", one.started_at, stop, one.finished_at is None))
        rows.append((one, steps))
        at = stop
    if not attempts or (attempts[-1].finished_at is not None and at < end):
        rows.append((None, [AttemptStep("waits", at, end, over is None)]))
    whole = (end - job.enqueued_at).total_seconds()
    return [Stretch(one, steps, _stretch(steps, job.enqueued_at, whole)) for one, steps in rows]


def _stretch(steps: Sequence[AttemptStep], origin: datetime, whole: float) -> Picture:
    bars = []
    for step in steps:
        left = (step.begin - origin).total_seconds() / whole * TIMELINE
        wide = max(2.0, step.seconds / whole * TIMELINE)
        bars.append(ChartBar(step.kind, min(left, TIMELINE - 2), 1, wide, 16))
    return Picture(", ".join(f"{step.kind} {step.seconds:.1f} s" for step in steps), bars)
