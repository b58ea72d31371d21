"""`gpupool jobs`: submit jobs to the queue and follow them.

Asks the queue through the SDK and prints; it decides nothing, and knows no other way into the queue.
"""

from __future__ import annotations

import csv
import json
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpupool.cli.output import Format, FormatOption, print_answer, print_json
from gpupool.cli.queue.jobs import follow_job, ids, printing, values
from gpupool.cli.queue.jobs.cancel import cancel
from gpupool.cli.queue.jobs.connection import Given, LostAfterOption, asked, question
from gpupool.cli.queue.jobs.options import JobCommand, ServerOption, TenantOption, given, takes_fields
from gpupool.findings import UsageError
from gpupool.findings.terminal import write_raw

if TYPE_CHECKING:
    from gpupool.client import Client, Job

WHOLE_ID = 36
"""Characters of an id."""

app = typer.Typer(
    help="Submit jobs to the GPU job queue and follow them.",
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog="GPUPOOL_URL is the queue's address, GPUPOOL_KEY the API key, GPUPOOL_TENANT the tenant. Exit "
    "codes: 0 success; 1 the job failed or the queue refused the request; 2 usage error; 3 connection to the "
    "queue lost: the request may have taken effect, and jobs continue.",
)

JobArgument = Annotated[
    str, typer.Argument(metavar="JOB", help="Id of a job or an array, or a unique prefix of one.")
]
KeyOption = Annotated[
    str | None,
    typer.Option("--idempotency-key", help="Submitting again with the same key creates no second job."),
]
WaitOption = Annotated[
    bool,
    typer.Option(
        "--wait",
        help="Wait until the job has ended and print why it waits; exit 1 unless it succeeded, 3 if the "
        "connection is lost.",
    ),
]


@app.command(cls=JobCommand, context_settings={"allow_interspersed_args": False})
@takes_fields
def submit(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="COMMAND",
            help="Command of the container: the first word that is not an option, and all words after it.",
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "-f", "--file", metavar="FILE", help="Fields of the job in YAML; options override them."
        ),
    ] = None,
    key: KeyOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print whether the job fits, its cost and why it would wait.")
    ] = False,
    wait: WaitOption = False,
    at_most: Annotated[
        str | None,
        typer.Option(
            "--at-most", help="With --wait: exit 1 if the job has not ended after this time, such as 15m."
        ),
    ] = None,
    lost_after: LostAfterOption = None,
    tenant: TenantOption = None,
    server: ServerOption = None,
    format: FormatOption = "text",
    **fields: Any,
) -> None:
    """Submit a job: a container with --image, an HTTP request with --url, or a job file with --file. Options
    come before the command.

    Example: gpupool jobs submit --pool t4 --tenant vision --image torch:2.9 python train.py --epochs 3
    """
    options: Given = given(fields, command)
    if file is not None:
        from gpupool.cli.queue.jobs import job_file

        options = job_file.overridden(job_file.read(file), options)
    spec: Any = _spec(options)
    limit_s = _seconds("--at-most", at_most)
    if limit_s is not None and not wait:
        raise UsageError("--at-most bounds how long --wait waits; give --wait with it")
    with asked(server, tenant, options, wait, _seconds("--lost-after", lost_after)) as client:
        _resolve_dependencies(client, spec, options)
        if dry_run:
            forecast = client.validate_job(**spec)
            print_answer(format, forecast.data, lambda: printing.print_forecast(forecast))
            return
        job = follow_job.submit_with_key(
            lambda key: client.submit_job(idempotency_key=key, **spec),
            key,
            lambda key: question(key, server, tenant),
        )
        _submitted(client, job, wait, format, limit_s)


@app.command(cls=JobCommand)
@takes_fields
def rerun(
    job: JobArgument,
    unsuccessful: Annotated[
        bool,
        typer.Option("--unsuccessful", help="Of an array, rerun only jobs that ended without success."),
    ] = False,
    key: KeyOption = None,
    wait: WaitOption = False,
    lost_after: LostAfterOption = None,
    tenant: TenantOption = None,
    server: ServerOption = None,
    format: FormatOption = "text",
    **fields: Any,
) -> None:
    """Submit a job or an array again; options override its fields. Jobs of an array keep their indexes.
    Dependencies are not copied.

    Example: gpupool jobs rerun 0195d6c8-2f3a-7e11-b7a5-6f1d2c3b4a59 --timeout 8h
    """
    options: Given = given(fields)
    changes: Any = _spec(options)
    with asked(server, tenant, options, wait, _seconds("--lost-after", lost_after)) as client:
        _resolve_dependencies(client, changes, options)
        id = ids.named(client, job).id
        again = follow_job.submit_with_key(
            lambda key: client.rerun_job(id, unsuccessful=unsuccessful, idempotency_key=key, **changes),
            key,
            lambda key: question(key, server, tenant),
        )
        _submitted(client, again, wait, format)


def _spec(options: Given) -> Any:
    return {name: value for name, (_, value, *_) in options.items() if value is not None}


def _seconds(option: str, text: str | None) -> int | None:
    return None if text is None else values.seconds(option, text)


def _resolve_dependencies(client: Client, spec: dict[str, Any], options: Given) -> None:
    """Beginnings of ids that were typed as whole ids."""
    for name in ("depends_on", "depends_on_ended"):
        if name in spec and options[name][0]:
            spec[name] = ids.whole(client, spec[name])


def _submitted(client: Client, job: Job, wait: bool, format: Format, limit_s: int | None = None) -> None:
    """Say what was submitted, or wait for it, `limit_s` at most, and say what has become of it."""
    if not wait:
        print_answer(format, job.data, lambda: printing.print_submitted(job))
        return
    jobs = follow_job.wait_until_all_ended(client, job, limit_s)
    first = next((each for each in jobs if not each.succeeded), jobs[0])
    answer = {"jobs": [each.data for each in jobs]} if job.group_id else dict(first.data)
    print_answer(format, answer | {"replayed": job.replayed}, lambda: printing.print_ended(jobs))
    if format == "text":
        printing.print_timeline(client.history(first.id))
        printing.print_replayed(job)
    if not first.succeeded:
        raise typer.Exit(1)


@app.command(name="list", cls=JobCommand)
def list_(
    state: Annotated[
        list[str] | None, typer.Option("--state", help="Only jobs in this state; may be repeated.")
    ] = None,
    project: Annotated[str | None, typer.Option("--project", help="Only jobs of this project.")] = None,
    pool: Annotated[str | None, typer.Option("--pool", help="Only jobs on this pool.")] = None,
    user: Annotated[str | None, typer.Option("--user", help="Only jobs of this user.")] = None,
    group: Annotated[str | None, typer.Option("--group", help="Only jobs of this array.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="Only jobs with this name.")] = None,
    key: Annotated[
        str | None,
        typer.Option("--idempotency-key", help="Only jobs that the submission with this key created."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Maximum number of jobs.")] = 50,
    width: Annotated[
        int | None,
        typer.Option(
            "--width", min=printing.NARROWEST, help="Width of the table.  [default: the terminal's]"
        ),
    ] = None,
    tenant: TenantOption = None,
    server: ServerOption = None,
    format: FormatOption = "text",
) -> None:
    """List jobs, newest first.

    Example: gpupool jobs list --state queued --state running
    """
    with asked(server, tenant, {"state": ("--state", state)}) as client:
        if group is not None and len(group) < WHOLE_ID:
            group = ids.named(client, group).id
        selected = client.jobs(
            *(state or ()),
            project=project,
            pool=pool,
            user=user,
            group=group,
            name=name,
            idempotency_key=key,
            page_size=min(limit, 200),
        )
        jobs = list(islice(selected, limit))
    print_answer(format, {"jobs": [job.data for job in jobs]}, lambda: printing.print_jobs(jobs, width))


@app.command(cls=JobCommand)
def export(
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="Maximum number of jobs, newest first.")
    ] = 100_000,
    tenant: TenantOption = None,
    server: ServerOption = None,
) -> None:
    """Print jobs that have ended as a trace for `gpupool simulate --trace`.

    Example: gpupool jobs export > jobs.csv
    """
    from gpupool.cli.queue.jobs.export import over, table

    with asked(server, tenant) as client:
        csv.writer(sys.stdout, lineterminator="\n").writerows(table(over(client, limit)))


@app.command(cls=JobCommand)
def show(
    job: JobArgument,
    tenant: TenantOption = None,
    server: ServerOption = None,
    format: FormatOption = "text",
) -> None:
    """Show a job and its events, or an array and its jobs.

    Example: gpupool jobs show 0195d6c8-2f3a-7e11-b7a5-6f1d2c3b4a59
    """
    with asked(server, tenant) as client:
        what = ids.named(client, job)
        jobs = ids.jobs_of(client, what)
        history = () if what.is_array else client.history(what.id)
    if what.is_array:
        answer = {"group_id": what.id, "jobs": [each.data for each in jobs]}
        print_answer(format, answer, lambda: printing.print_array(what.id, jobs))
        return
    answer = {**jobs[0].data, "events": [event.data for event in history]}
    print_answer(format, answer, lambda: printing.print_job(jobs[0], history))


@app.command(cls=JobCommand)
def why(
    job: JobArgument,
    tenant: TenantOption = None,
    server: ServerOption = None,
    format: FormatOption = "text",
) -> None:
    """Explain why a job waits, with each term of the scheduling decision. Of an array, explain the first job
    that waits.

    Example: gpupool jobs why 0195d6c8-2f3a-7e11-b7a5-6f1d2c3b4a59
    """
    with asked(server, tenant) as client:
        what = ids.named(client, job)
        jobs = ids.jobs_of(client, what) if what.is_array else []
        waiting = next((each.id for each in jobs if each.waiting), jobs[0].id if jobs else what.id)
        reasons = client.why(waiting)
    if jobs and format == "text":
        printing.print_states(what.id, jobs)
    print_answer(format, reasons.data, lambda: printing.print_why(reasons))


app.command(cls=JobCommand)(cancel)


@app.command(cls=JobCommand)
def logs(
    job: JobArgument,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Follow the output until the job has ended.")
    ] = False,
    attempt: Annotated[
        int | None, typer.Option("--attempt", min=1, help="Only output of this attempt.")
    ] = None,
    tail: Annotated[
        int | None, typer.Option("--tail", min=1, metavar="LINES", help="Only the last LINES lines.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="DURATION", help="Only output of the last DURATION, such as 10m."),
    ] = None,
    raw: Annotated[
        bool,
        typer.Option(
            "--raw", help="Print control characters on the terminal too; files and pipes always get them."
        ),
    ] = False,
    lost_after: LostAfterOption = None,
    tenant: TenantOption = None,
    server: ServerOption = None,
    format: FormatOption = "text",
) -> None:
    """Print the output of a job, of all its attempts, or of an array's jobs one after the other. Separators
    between them go to stderr.

    Example: gpupool jobs logs --follow 0195d6c8-2f3a-7e11-b7a5-6f1d2c3b4a59
    """
    seconds = _seconds("--since", since)
    with asked(server, tenant, None, follow, _seconds("--lost-after", lost_after)) as client:
        what = ids.named(client, job)
        if format == "json":
            outputs = [
                {
                    "id": each.id,
                    "index": each.group_index,
                    "lines": list(client.logs(each.id, follow, attempt, tail, seconds)),
                }
                for each in ids.jobs_of(client, what)
            ]
            print_json({"group_id": what.id, "jobs": outputs} if what.is_array else outputs[0])
            return
        for line in follow_job.output(client, what, follow, attempt, tail, seconds):
            write_raw(f"{line}\n") if raw else print(line)
            if follow:
                sys.stdout.flush()


@app.command(cls=JobCommand)
def watch(
    job: Annotated[
        str | None,
        typer.Argument(metavar="JOB", help="Id of a job or an array; default: all visible jobs."),
    ] = None,
    lost_after: LostAfterOption = None,
    tenant: TenantOption = None,
    server: ServerOption = None,
    format: FormatOption = "text",
) -> None:
    """Print events as they happen: of one job or array until it has ended, or of all jobs until interrupted.
    Exit 1 unless the job succeeded, 3 if the connection is lost.

    Example: gpupool jobs watch 0195d6c8-2f3a-7e11-b7a5-6f1d2c3b4a59
    """
    with asked(server, tenant, None, True, _seconds("--lost-after", lost_after)) as client:
        what = ids.named(client, job) if job else None
        for event in follow_job.events(client, what) if what else client.events():
            # One JSON text a line: the answer has no end.
            print(json.dumps(event.data) if format == "json" else printing.event_line(event), flush=True)
        ended = ids.jobs_of(client.waiting(), what) if what else []
    if not all(each.succeeded for each in ended):
        raise typer.Exit(1)
