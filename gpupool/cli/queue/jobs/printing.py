"""How `gpupool jobs` shows the queue's answers to people.

Text only; what it shows comes from the SDK.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gpupool.cli.output import print_table
from gpupool.cli.queue.jobs import words
from gpupool.environment.money import digits, usd_exact

if TYPE_CHECKING:
    from gpupool.client import Cancelled, Event, Forecast, Job, Why
    from gpupool.client.values import Offer


SHORT_ID = (18, 23, 28)
"""Characters of an id in a narrow list: up to a hyphen, as many as distinguish the listed ones."""
WHY_LENGTH = 100
"""Characters of a reason in a list; `gpupool jobs show` prints it whole."""


def print_submitted(job: Job) -> None:
    ids = job.job_ids or (job.id,)
    if len(ids) == 1:
        print(f"{job.id}  {job.state}, {_place(job)}, at most {usd_exact(job.estimate_usd)}")
    else:
        for id in ids:
            print(id)
        print(f"{len(ids)} jobs, group {job.group_id}, each at most {usd_exact(job.estimate_usd)}")
    print_replayed(job)


def print_replayed(job: Job) -> None:
    """Of a job that was submitted: whether it had been before."""
    if job.replayed:
        what = f"job {job.id}" if len(job.job_ids) < 2 else f"the jobs of group {job.group_id}"
        at = f" at {words.moment(job.enqueued_at)}" if job.enqueued_at else ""
        print(f"this idempotency key was used for {what}{at}; nothing was submitted")


def print_ended(jobs: Sequence[Job]) -> None:
    """Jobs that were waited for, with what they have cost."""
    for job in jobs:
        print(f"{job.id}  {job.state}, {_place(job)}, cost {words.usd(job.cost_usd)}")
    if len(jobs) > 1:
        cost = sum(job.cost_usd for job in jobs)
        print(f"{len(jobs)} jobs, group {jobs[0].group_id}, cost {words.usd(cost)}")


def print_cancelled(jobs: Sequence[Job | Cancelled]) -> None:
    from gpupool.client.values import FINAL

    if not jobs:
        print("no jobs to cancel")
    for job in jobs:
        state = job.state if job.state in FINAL else f"{job.state}, asked to stop"
        print(f"{job.id}  {state}")


def print_array(id: str, jobs: Sequence[Job]) -> None:
    """The jobs of an array together, and then each."""
    print_states(id, jobs)
    print_jobs(jobs)


def print_states(id: str, jobs: Sequence[Job]) -> None:
    """How many jobs of an array are in each state, and what they have cost."""
    counts = Counter(str(job.state) for job in jobs)
    states = ", ".join(f"{number} {state}" for state, number in counts.items())
    cost = words.usd(sum(job.cost_usd for job in jobs))
    print(f"array {id}  {len(jobs)} jobs: {states}; cost {cost}")
    print()


def print_jobs(jobs: Sequence[Job], width: int | None = None) -> None:
    """A table, of `width` characters at most: the least needed columns are left out, and long cells cut."""
    if not jobs:
        print("no jobs")
        return
    width = _terminal() if width is None else width
    rows = [_row(job) for job in jobs]
    columns = [name for name in _COLUMNS if name != "index" or any(job.group_id for job in jobs)]
    if width is not None:
        columns, rows = _narrowed(columns, rows, max(width, NARROWEST))
    print_table(
        columns, [[row[name] for name in columns] for row in rows], right=("index", "gpus", "age", "usd")
    )


def _terminal() -> int | None:
    """Columns of the terminal; None for a file or pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


_COLUMNS = (
    "job", "name", "index", "tenant", "project", "state", "priority", "pool", "gpus", "age", "usd", "why"
)  # fmt: skip
_LEAST_NEEDED = ("tenant", "project", "priority", "usd", "why", "pool", "age")
"""Columns, in the order in which they are left out."""
NARROWEST = 80
_CUT = {"name": 14, "pool": 12, "why": 20}
"""Cells that may be cut, and to how much."""


def _narrowed(
    columns: list[str], rows: list[dict[str, str]], width: int
) -> tuple[list[str], list[dict[str, str]]]:
    def used(columns: list[str], rows: list[dict[str, str]]) -> int:
        return sum(2 + max(len(name), *(len(row[name]) for row in rows)) for name in columns) - 2

    if used(columns, rows) <= width:
        return columns, rows
    ids = [row["job"] for row in rows]
    digits = next((n for n in SHORT_ID if len({id[:n] for id in ids}) == len(ids)), 36)
    rows = [
        {**row, "job": row["job"][:digits]} | {name: _cut(row[name], length) for name, length in _CUT.items()}
        for row in rows
    ]
    for name in _LEAST_NEEDED:
        if used(columns, rows) > width:
            columns.remove(name)
    return columns, rows


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 3].rstrip()}..."


def _row(job: Job) -> dict[str, str]:
    why = job.waiting.detail if job.waiting else job.reason or ""
    return {
        "job": job.id,
        "name": job.job_name,
        "index": "-" if job.group_index is None else str(job.group_index),
        "tenant": job.tenant,
        "project": job.project_id or "-",
        "state": f"{job.state}, borrowed" if job.borrowed and not job.ended else str(job.state),
        "priority": job.priority,
        "pool": job.pool or words.asked_for(job),
        "gpus": str(job.gpu_count) if job.gpus is None else words.gpu_share(job.gpus),
        "age": _age(job.enqueued_at),
        "usd": digits(job.cost_usd),
        "why": textwrap.shorten(why, WHY_LENGTH, placeholder=" ..."),
    }


def print_job(job: Job, history: Sequence[Event]) -> None:
    rows = list(words.fields(job))
    width = max(len(name) for name, _ in rows)
    for name, text in rows:
        print(f"{name.ljust(width)}  {text}")
    if history:
        print()
        for event in history:
            print(event_line(event, with_job=False))


def print_timeline(history: Sequence[Event]) -> None:
    """What happened to a job and when, in seconds after it was enqueued."""
    rows: list[tuple[str, str, str]] = []
    begin = next((event.time for event in history if event.time), None)
    latest = 0.0

    def add(what: str, at: datetime | None, about: str) -> None:
        # Kubernetes gives whole seconds: what comes later is not shown as earlier.
        nonlocal latest
        latest = max(latest, (at - begin).total_seconds() if begin and at else 0.0)
        rows.append((what, f"{latest:.1f}", about))

    for event in history:
        change = event.change
        what, about = words.happened(event)
        if change.get("node"):
            about = ""
            up = datetime.fromisoformat(change["node_at"]) if change.get("node_at") else event.time
            add("node up", up, str(change["node"]))
        add(what, event.time, about)
    print_table(("what", "after s", ""), rows, right=("after s",))


def print_why(why: Why) -> None:
    print(f"{why.id}  {why.state}")
    if why.waiting:
        print(f"reason: {words.reason(why.waiting.reason)}: {why.waiting.detail}")
        if remediation := words.remediation(why.waiting.reason):
            print(f"action: {remediation}")
    if why.position is not None:
        print(f"jobs ahead: {why.position}")
    _print_projection(why)
    decision = why.data.get("decision")
    for line in words.terms(why.terms) if why.terms else ():
        print(line)
    for line in words.decision(decision) if decision else ():
        print(line)
    _print_offers(why.offers)


def print_forecast(forecast: Forecast) -> None:
    print(f"fits; at most {usd_exact(forecast.estimate_usd)}" if forecast.fits else "does not fit")
    if not forecast.budget_allows:
        print("exceeds the remaining budget")
    if forecast.waiting:
        print(f"would wait: {words.reason(forecast.waiting.reason)}: {forecast.waiting.detail}")
        if remediation := words.remediation(forecast.waiting.reason):
            print(f"action: {remediation}")
        if forecast.position is not None:
            print(f"jobs ahead: {forecast.position}")
        _print_projection(forecast)
    elif forecast.fits and forecast.budget_allows:
        print("would start now")
    _print_offers(forecast.offers)


def _print_projection(about: Why | Forecast) -> None:
    if about.projected_start:
        after = "after " if about.projection == "after" else ""
        at = words.moment(about.projected_start)
        print(f"projected start: {after}{at}, if every job runs until its timeout")


def event_line(event: Event, with_job: bool = True) -> str:
    """One event in one line."""
    time = words.moment(event.time) if event.time else "-"
    return "  ".join([time, *([event.job] if with_job else []), *words.happened(event)]).rstrip()


def _print_offers(offers: Sequence[Offer]) -> None:
    if not offers:
        return
    print()
    rows = [
        (
            offer.pool,
            f"{offer.units} {offer.resource.removeprefix('nvidia.com/')}",
            words.gpu_share(offer.gpus),
            digits(offer.usd_per_hour),
            "-" if offer.spot_usd_per_hour is None else digits(offer.spot_usd_per_hour),
        )
        for offer in offers
    ]
    print_table(("pool", "slots", "gpus", "usd/h", "spot usd/h"), rows, right=("gpus", "usd/h", "spot usd/h"))


def _place(job: Job) -> str:
    return f"pool {job.pool}" if job.pool else f"for {words.asked_for(job)}"


def _age(since: datetime | None) -> str:
    if since is None:
        return "-"
    seconds = max(0, int((datetime.now(UTC) - since).total_seconds()))
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"
