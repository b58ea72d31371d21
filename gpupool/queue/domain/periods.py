"""The days, weeks and months (UTC) that budgets are for.

This module must not know budgets.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def period_end(period: str, at: float) -> float:
    """When the day, week (from Monday) or month that the moment lies in ends; epoch seconds, as `at` is."""
    day = datetime.fromtimestamp(at, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if period == "day":
        end = day + timedelta(days=1)
    elif period == "week":
        end = day + timedelta(days=7 - day.weekday())
    else:
        end = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
    return end.timestamp()
