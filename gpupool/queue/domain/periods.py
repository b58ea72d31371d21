"""The days, weeks and months (UTC) that budgets are for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def period_end(period: str, at: float) -> datetime:
    """When the day, week (from Monday) or month that the moment lies in ends. `at`: epoch seconds."""
    day = datetime.fromtimestamp(at, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if period == "day":
        return day + timedelta(days=1)
    if period == "week":
        return day + timedelta(days=7 - day.weekday())
    return (day.replace(day=1) + timedelta(days=32)).replace(day=1)
