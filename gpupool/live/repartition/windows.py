"""When a maintenance window is open. Pure arithmetic on UTC times; the window itself is the Plan's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from gpupool.environment.plan.model import Window


def closes(window: Window | None, now: datetime) -> datetime | None:
    """When the window that is open now closes; None if it is closed. Without a window: never (year 9999)."""
    if window is None:
        return datetime.max.replace(tzinfo=UTC)
    ends = [start + timedelta(minutes=window.minutes) for start in _starts(window, now) if start <= now]
    return max((end for end in ends if end > now), default=None)


def is_open(window: Window | None, now: datetime) -> bool:
    """Whether work may begin now."""
    return closes(window, now) is not None


def opens(window: Window, now: datetime) -> datetime:
    """The next time from now on that the window opens."""
    return min(start for start in _starts(window, now) if start >= now)


def _starts(window: Window, now: datetime) -> list[datetime]:
    """Every opening from a week before `now` until a week after."""
    # Cron counts weekdays from Sunday, Python's isoweekday has Sunday = 7.
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    days = [midnight + timedelta(days=offset) for offset in range(-8, 9)]
    begin = timedelta(minutes=window.start_minute)
    return [day + begin for day in days if day.isoweekday() % 7 in window.weekdays]
