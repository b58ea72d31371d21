"""How `gpupool jobs` shows the queue's answers to people.

Text only; what it shows comes from the SDK.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gpupool.cli import jobs_words
from gpupool.cli.output import print_table
from gpupool.money import digits, usd_exact

if TYPE_CHECKING:
    from gpupool.client import Event, Forecast, Job, Why
    from gpupool.client.values import Offer


WHY_LENGTH = 100
"""Characters of a reason in a list; `gpupool jobs show` prints it whole."""


def print_submitted(job: Job) -> None:
    ids = job.job_ids or (job.id,)
    if len(ids) == 1:
        print(f"{job.id}  {job.state}, {_place(job)}, at most {usd_exact(job.estimate_usd)}")
        return
    for id in ids:
        print(id)
    print(f"{len(ids)} jobs, group {job.group_id}, each at most {usd_exact(job.estimate_usd)}")


def print_ended(jobs: Sequence[Job]) -> None:
    """Jobs that were waited for, with what they have cost."""
    for job in jobs:
        print(f"{job.id}  {job.state}, {_place(job)}, cost {jobs_words.usd(job.cost_usd)}")
    if len(jobs) > 1:
        cost = sum(job.cost_usd for job in jobs)
        print(f"{len(jobs)} jobs, group {jobs[0].group_id}, cost {jobs_words.usd(cost)}")


def print_cancelled(jobs: Sequence[Job]) -> None:
    for job in jobs:
        state = job.state if job.ended else f"{job.state}, asked to stop"
        print(f"{job.id}  {state}")


def print_jobs(jobs: Sequence[Job]) -> None:
    if not jobs:
        print("no jobs")
        return
    columns = ("job", "name", "tenant", "project", "state", "priority", "pool", "gpus", "age", "usd", "why")
    print_table(columns, [_row(job) for job in jobs], right=("gpus", "age", "usd"))


def _row(job: Job) -> tuple[str, ...]:
    why = job.waiting.detail if job.waiting else job.reason or ""
    return (
        job.id,
        job.job_name,
        job.tenant,
        job.project_id or "-",
        str(job.state),
        job.priority,
        job.pool or jobs_words.asked_for(job),
        str(job.gpu_count),
        _age(job.enqueued_at),
        digits(job.cost_usd),
        textwrap.shorten(why, WHY_LENGTH, placeholder=" ..."),
    )


def print_job(job: Job, history: Sequence[Event]) -> None:
    rows = list(jobs_words.fields(job))
    width = max(len(name) for name, _ in rows)
    for name, text in rows:
        print(f"{name.ljust(width)}  {text}")
    if history:
        print()
        for event in history:
            print(event_line(event, with_job=False))


def print_timeline(history: Sequence[Event]) -> None:
    """What happened to a job and when, in seconds after it was accepted."""
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
        what, about = jobs_words.happened(event)
        if change.get("node"):
            about = ""
            up = datetime.fromisoformat(change["node_at"]) if change.get("node_at") else event.time
            add("node up", up, str(change["node"]))
        add(what, event.time, about)
    print_table(("what", "after s", ""), rows, right=("after s",))


def print_why(why: Why) -> None:
    print(f"{why.id}  {why.state}")
    if why.waiting:
        print(f"waits for {jobs_words.reason(why.waiting.reason)}: {why.waiting.detail}")
    if why.position is not None:
        print(f"jobs before it: {why.position}")
    _print_projection(why)
    decision = why.data.get("decision")
    for line in jobs_words.terms(why.terms) if why.terms else ():
        print(line)
    for line in jobs_words.decision(decision) if decision else ():
        print(line)
    _print_offers(why.offers)


def print_forecast(forecast: Forecast) -> None:
    print(f"fits; at most {usd_exact(forecast.estimate_usd)}" if forecast.fits else "does not fit")
    if not forecast.budget_allows:
        print("the budget does not allow it now")
    if forecast.waiting:
        print(f"would wait for {jobs_words.reason(forecast.waiting.reason)}: {forecast.waiting.detail}")
        if forecast.position is not None:
            print(f"jobs before it: {forecast.position}")
        _print_projection(forecast)
    elif forecast.fits and forecast.budget_allows:
        print("would start now")
    _print_offers(forecast.offers)


def _print_projection(about: Why | Forecast) -> None:
    if about.projected_start:
        after = "after " if about.projection == "after" else ""
        at = jobs_words.moment(about.projected_start)
        print(f"projected start: {after}{at}, if everything runs for as long as it may")


def event_line(event: Event, with_job: bool = True) -> str:
    """One event in one line."""
    time = jobs_words.moment(event.time) if event.time else "-"
    return "  ".join([time, *([event.job] if with_job else []), *jobs_words.happened(event)]).rstrip()


def _print_offers(offers: Sequence[Offer]) -> None:
    if not offers:
        return
    print()
    rows = [
        (
            offer.pool,
            f"{offer.units} {offer.resource.removeprefix('nvidia.com/')}",
            f"{offer.gpus:.3g}",
            digits(offer.usd_per_hour),
            "-" if offer.spot_usd_per_hour is None else digits(offer.spot_usd_per_hour),
        )
        for offer in offers
    ]
    print_table(("pool", "slots", "gpus", "usd/h", "spot usd/h"), rows, right=("gpus", "usd/h", "spot usd/h"))


def _place(job: Job) -> str:
    return f"pool {job.pool}" if job.pool else f"for {jobs_words.asked_for(job)}"


def _age(since: datetime | None) -> str:
    if since is None:
        return "-"
    seconds = max(0, int((datetime.now(UTC) - since).total_seconds()))
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"
