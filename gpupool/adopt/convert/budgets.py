"""Karpenter's disruption budgets -> how many nodes at once, and the maintenance window.

A window is what remains of the week when every stretch with a budget of 0 is taken away, so it can be read
from any set of such budgets, however they were split up. Karpenter v1.14.1, pkg/apis/v1/nodepool.go: cron in
UTC, the most restrictive budget holds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from gpupool.adopt.convert.account import Part
from gpupool.adopt.convert.quantities import seconds

_WEEK = 7 * 1440
_DAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")
_MACROS = {"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0"}
_IN_USE = {"Drifted", "Underutilized"}
"""Reasons that move running work; nodes that are empty may go at any time under gpupool."""


def read(budgets: Sequence[Part], nodes_max: int) -> tuple[int | None, str | None]:
    """`maintenance.maxUnavailable` and `maintenance.window` of a pool; None for what the budgets don't say.
    What can't be expressed this way is listed."""
    allowed: list[int] = []
    closed: list[Part] = []
    for budget in budgets:
        reasons = _reasons(budget)
        nodes = budget.at("nodes")
        count = _count(nodes.value, nodes_max)
        if count is None:
            budget.wrong("not a valid Karpenter budget", 'write nodes: "1" or "10%"')
        elif budget.at("schedule"):
            closed.append(budget)
        elif reasons is not None and not reasons & _IN_USE:
            _empty(budget, nodes.value)
        elif reasons is not None and not reasons >= _IN_USE:
            budget.left(
                "gpupool has one limit for all disruptions of running work", "set pools[].maintenance"
            )
        else:
            allowed.append(count)
            _all_at_once(budget, nodes.value, count, nodes_max)
    return (min(allowed) if allowed and min(allowed) > 0 else None), _window(closed)


def _reasons(budget: Part) -> set[str] | None:
    """What the budget is for; None where it is for everything."""
    reasons = budget.at("reasons")
    return {str(item.value) for item in reasons.each()} if reasons else None


def _empty(budget: Part, nodes: object) -> None:
    if nodes == "100%":
        budget.derives("nodes", "reasons")
    else:
        budget.left(
            "gpupool lets Karpenter remove empty nodes at any time", "removing several at once loses nothing"
        )


def _all_at_once(budget: Part, nodes: object, count: int, nodes_max: int) -> None:
    if count == 0:
        budget.left(
            "gpupool does not support pools whose nodes are never replaced", "set pools[].maintenance.window"
        )
    elif isinstance(nodes, str) and nodes.endswith("%"):
        budget.left(f"gpupool counts nodes: {nodes} of {nodes_max} is {count}", kind="assumed")
    else:
        budget.uses("nodes", "reasons")


def _count(value: object, nodes_max: int) -> int | None:
    """How many nodes a budget allows; None where it is not a budget. Karpenter rounds percentages up."""
    text = str(value)
    if re.fullmatch(r"[0-9]{1,9}", text) and not isinstance(value, bool):
        return min(int(text), nodes_max)
    if re.fullmatch(r"[0-9]{1,3}%", text) and int(text[:-1]) <= 100:
        return math.ceil(int(text[:-1]) * nodes_max / 100)
    return None


def _window(closed: Sequence[Part]) -> str | None:
    taken = [False] * _WEEK
    understood: list[Part] = []
    for budget in closed:
        stretches = _stretches(budget)
        if stretches is None or budget.at("nodes").value not in ("0", 0, "0%"):
            budget.left(
                "gpupool supports one maintenance window, daily or on given weekdays",
                "set pools[].maintenance",
            )
            continue
        understood.append(budget)
        for start, minutes in stretches:
            for minute in range(start, start + min(minutes, _WEEK)):
                taken[minute % _WEEK] = True
    text = _spell(taken) if understood else None
    for budget in understood:
        if text is None:
            budget.left(
                "the times that these budgets leave open do not form a gpupool window",
                "set pools[].maintenance.window",
            )
            continue
        budget.uses("nodes", "reasons", "schedule", "duration")
        if not budget.at("reasons"):
            budget.note("left", "it also keeps empty nodes, which gpupool lets Karpenter remove at any time")
    return text


def _stretches(budget: Part) -> list[tuple[int, int]] | None:
    """(minute of the week at which it closes, for how many minutes) of a scheduled budget."""
    schedule, length = budget.word("schedule"), seconds(budget.at("duration").value)
    if not length or length % 60:
        return None
    fields = _MACROS.get(schedule, schedule).split()
    if len(fields) != 5 or fields[2:4] != ["*", "*"]:
        return None
    minute, hour, days = _number(fields[0], 59), _number(fields[1], 23), _days(fields[4])
    if minute is None or hour is None or days is None:
        return None
    return [(day * 1440 + hour * 60 + minute, length // 60) for day in days]


def _number(text: str, most: int) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,2}", text) and int(text) <= most else None


def _days(text: str) -> list[int] | None:
    """Weekdays of a cron field, 0 = Sunday; None where it is not understood."""
    if text == "*":
        return list(range(7))
    days: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        start, end = _day(first), _day(last if dash else first)
        if start is None or end is None or end < start:
            return None
        days += [day % 7 for day in range(start, end + 1)]
    return sorted(set(days))


def _day(text: str) -> int | None:
    names = [name.upper() for name in _DAYS]
    return names.index(text.upper()) if text.upper() in names else _number(text, 7)


def _spell(taken: Sequence[bool]) -> str | None:
    """The open stretches as "Sat,Sun 02:00-06:00 UTC"; None where they are not alike on their days."""
    openings = [minute for minute in range(_WEEK) if not taken[minute] and taken[minute - 1]]
    lengths = {next(n for n in range(1, _WEEK) if taken[(minute + n) % _WEEK]) for minute in openings}
    starts = {minute % 1440 for minute in openings}
    if len(lengths) != 1 or len(starts) != 1 or next(iter(lengths)) >= 1440:
        return None
    start, length = starts.pop(), lengths.pop()
    days = [minute // 1440 for minute in openings]
    end = (start + length) % 1440
    when = "daily" if len(days) == 7 else ",".join(_DAYS[day] for day in days)
    return f"{when} {start // 60:02}:{start % 60:02}-{end // 60:02}:{end % 60:02} UTC"
