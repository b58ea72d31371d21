"""Charts of use and money over days, and a job's timeline, as SVG without text of its own.

They stretch to the page's width, so words and figures stand beside them in HTML. Text that an SVG has is its
label for those who don't see it. No database here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from html import escape

from markupsafe import Markup

from gpupool.queue.records import Job
from gpupool.queue.store.accounts import DayOfUse
from gpupool.queue.store.attempts import Attempt

WIDTH, HEIGHT = 600, 120
TIMELINE = 1000


def _picture(parts: Sequence[str], label: str, width: int, height: int, kind: str) -> Markup:
    return Markup(  # noqa: S704 - numbers and classes; the label is escaped
        f'<svg class="{kind}" role="img" aria-label="{escape(label)}" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" preserveAspectRatio="none">{"".join(parts)}</svg>'
    )


def _rect(kind: str, x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="{kind}" x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}"/>'


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture with what stands beside it."""

    picture: Markup
    most: float
    """Value of its upper edge."""
    first: date
    last: date


def per_day(
    rows: Sequence[DayOfUse], value: str, label: str, days: Sequence[date], colours: Mapping[str, str]
) -> Chart | None:
    """A column for each day, one part for each tenant. `value`: the field that is drawn. None: all zero."""
    by_day: dict[date, list[DayOfUse]] = {}
    for row in rows:
        by_day.setdefault(row.day, []).append(row)
    most = max((sum(getattr(row, value) for row in on_day) for on_day in by_day.values()), default=0)
    if not most:
        return None
    step = WIDTH / len(days)
    parts = [f'<path class="axis" d="M0 {HEIGHT - 0.5}H{WIDTH}"/>']
    for index, day in enumerate(days):
        bottom = float(HEIGHT)
        for row in by_day.get(day, ()):
            tall = getattr(row, value) / most * (HEIGHT - 2)
            bottom -= tall
            parts.append(_rect(f"held {colours[row.tenant]}", index * step + 1.5, bottom, step - 3, tall))
    return Chart(_picture(parts, label, WIDTH, HEIGHT, "chart"), most, days[0], days[-1])


def budget(
    spent: Mapping[date, int], held: int, limit: int, days: Sequence[date], today: date, label: str
) -> Markup:
    """What a budget's period has cost so far, day by day, what is held on top, and the limit as a line."""
    total, sums = 0, []
    for day in days:
        if day > today:
            break
        total += spent.get(day, 0)
        sums.append(total)
    top = max(limit, total + held) * 1.05 or 1
    step = WIDTH / len(days)
    parts = [f'<path class="axis" d="M0 {HEIGHT - 0.5}H{WIDTH}"/>']
    for index, value in enumerate(sums):
        tall = value / top * HEIGHT
        parts.append(_rect("spent", index * step, HEIGHT - tall, step, tall))
    if held and sums:
        low, high = HEIGHT - total / top * HEIGHT, held / top * HEIGHT
        parts.append(_rect("hold", (len(sums) - 1) * step, low - high, step, high))
    y = HEIGHT - limit / top * HEIGHT
    parts.append(f'<path class="limit" d="M0 {y:.2f}H{WIDTH}"/>')
    return _picture(parts, label, WIDTH, HEIGHT, "chart")


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
class Step:
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


@dataclass(frozen=True, slots=True)
class Stretch:
    """One attempt on the timeline."""

    attempt: Attempt | None
    """None for a wait that no attempt has ended."""
    steps: tuple[Step, ...]
    picture: Markup


def timeline(job: Job, attempts: Sequence[Attempt], now: datetime) -> tuple[Stretch, ...]:
    """Each attempt with the wait before it, all on one scale from the job's acceptance to its end or now."""
    over = job.finished_at
    end = max(over or now, job.enqueued_at + timedelta(milliseconds=1))
    at = attempts[0].decided_at if attempts and attempts[0].attempt > 1 else job.enqueued_at
    rows: list[tuple[Attempt | None, list[Step]]] = []
    for one in attempts:
        steps = [Step("waits", at, one.decided_at, False)]
        stop = one.finished_at or end
        steps.append(Step("starts", one.decided_at, one.started_at or stop, one.finished_at is None))
        if one.started_at:
            steps[-1] = Step("starts", one.decided_at, one.started_at, False)
            steps.append(Step("runs", one.started_at, stop, one.finished_at is None))
        rows.append((one, steps))
        at = stop
    if not attempts or (attempts[-1].finished_at is not None and at < end):
        rows.append((None, [Step("waits", at, end, over is None)]))
    whole = (end - job.enqueued_at).total_seconds()
    return tuple(Stretch(one, tuple(steps), _stretch(steps, job.enqueued_at, whole)) for one, steps in rows)


def _stretch(steps: Sequence[Step], origin: datetime, whole: float) -> Markup:
    parts = [f'<path class="axis" d="M0 9H{TIMELINE}"/>']
    for step in steps:
        left = (step.begin - origin).total_seconds() / whole * TIMELINE
        wide = max(2.0, step.seconds / whole * TIMELINE)
        parts.append(_rect(step.kind, min(left, TIMELINE - 2), 1, wide, 16))
    said = ", ".join(f"{step.kind} {step.seconds:.1f} s" for step in steps)
    return _picture(parts, said, TIMELINE, 18, "timeline")
