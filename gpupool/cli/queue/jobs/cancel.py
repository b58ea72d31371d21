"""`gpupool jobs cancel`: by id, or by what the jobs are.

Asks the queue through the SDK and prints; it decides nothing.
"""

from __future__ import annotations

import sys
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from gpupool.cli.output import FormatOption, print_answer
from gpupool.cli.queue.jobs import ids, printing
from gpupool.cli.queue.jobs.connection import asked
from gpupool.cli.queue.jobs.options import ServerOption, TenantOption
from gpupool.findings import UsageError

if TYPE_CHECKING:
    from gpupool.client import Cancelled, Client, Job
    from gpupool.client.values import JobFilter

OPEN = ("queued", "scheduled", "running")
"""States of jobs that can be cancelled."""
COUNTED = 1000
"""Jobs that are counted before the question."""


def cancel(
    jobs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[JOB]...", help="Ids of jobs and arrays, or unique prefixes of them."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All jobs of the tenant.")] = False,
    state: Annotated[
        list[str] | None, typer.Option("--state", help="Jobs in this state; may be repeated.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Jobs with this name.")] = None,
    project: Annotated[str | None, typer.Option("--project", help="Jobs of this project.")] = None,
    pool: Annotated[str | None, typer.Option("--pool", help="Jobs on this pool.")] = None,
    user: Annotated[str | None, typer.Option("--user", help="Jobs of this user.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask on a terminal.")] = False,
    tenant: TenantOption = None,
    server: ServerOption = None,
    format: FormatOption = "text",
) -> None:
    """Cancel jobs. Queued jobs end at once; others are asked to stop. Give either jobs or options; options
    select the tenant's jobs that match all of them.

    Example: gpupool jobs cancel --state queued --name sweep
    """
    filter: JobFilter = {"name": name, "project": project, "pool": pool, "user": user}
    selects = bool(everything or state or any(filter.values()))
    if selects == bool(jobs):
        raise UsageError("name jobs, or select them by --all, --state, --name, --project, --pool or --user")
    options = {name: (f"--{name}", value) for name, value in {**filter, "state": state}.items()}
    with asked(server, tenant, options) as client:
        reached: list[Job | Cancelled] = []
        if selects and (yes or _confirmed(client, state or [], filter)):
            reached += client.cancel_jobs(*state or (), everything=everything, **filter)
        for what in [ids.named(client, text) for text in jobs or ()]:
            if what.is_array:
                reached += client.cancel_jobs(group=what.id)
            else:
                reached.append(client.cancel_job(what.id))
    listed = {"jobs": [getattr(job, "data", None) or vars(job) for job in reached]}
    print_answer(format, listed, lambda: printing.print_cancelled(reached))


def _confirmed(client: Client, states: list[str], filter: JobFilter) -> bool:
    """Whether it is so wished, where somebody can be asked."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    selected = list(islice(client.jobs(*states or OPEN, page_size=200, **filter), COUNTED + 1))
    number = f"more than {COUNTED}" if len(selected) > COUNTED else str(len(selected))
    tenants = ", ".join(sorted({job.tenant for job in selected}))
    return not selected or typer.confirm(f"Cancel {number} jobs of {tenants}?", err=True)
