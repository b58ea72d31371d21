"""`gpupool jobs`: submit jobs to the queue, and see what becomes of them.

Asks the queue through the SDK and prints; it decides nothing, and knows no other way into the queue.
"""

from __future__ import annotations

import json
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpupool.cli import jobs_followed, jobs_text, jobs_values
from gpupool.cli.jobs_asked import Given, asked
from gpupool.cli.output import Format, FormatOption, print_json
from gpupool.findings import UsageError
from gpupool.terminal import write_raw

if TYPE_CHECKING:
    from gpupool.client import JobSpec

app = typer.Typer(
    help="Submit jobs to the GPU job queue, and see what becomes of them.",
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog="The queue is at GPUPOOL_URL; the key is read from GPUPOOL_KEY, the tenant from GPUPOOL_TENANT.",
)

ServerOption = Annotated[
    str | None,
    typer.Option("--server", help="The queue's address. [default: $GPUPOOL_URL or http://localhost:8021]"),
]
TenantOption = Annotated[
    str | None,
    typer.Option("--tenant", help="Name or id. [default: $GPUPOOL_TENANT, or the credential's only one]"),
]
JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="Id of a job.")]


@app.command()
def submit(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND", help="What runs in the container.")
    ] = None,
    pool: Annotated[
        str | None, typer.Option("--pool", help="A pool, a GPU such as t4, mig, a MIG profile, or auto.")
    ] = None,
    image: Annotated[str | None, typer.Option("--image", help="Container image.")] = None,
    url: Annotated[
        str | None, typer.Option("--url", help="Address that an HTTP job calls, instead of an image.")
    ] = None,
    request: Annotated[
        Path | None, typer.Option("--request", help="File with the JSON that is sent there; - for stdin.")
    ] = None,
    gpus: Annotated[
        int | None, typer.Option("--gpus", min=1, help="Whole GPUs; 1 where GPUs are shared or partitioned.")
    ] = None,
    gpu: Annotated[str | None, typer.Option("--gpu", help="GPU model, as in `gpupool catalog`.")] = None,
    isolation: Annotated[str | None, typer.Option("--isolation", help="shared or exclusive.")] = None,
    priority: Annotated[str | None, typer.Option("--priority", help="critical, high, medium or low.")] = None,
    project: Annotated[str | None, typer.Option("--project", help="Name or id of a project.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="A name for people.")] = None,
    env: Annotated[
        list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="A variable; may be repeated.")
    ] = None,
    budget: Annotated[float | None, typer.Option("--budget", help="USD that it may cost.")] = None,
    timeout: Annotated[
        str | None, typer.Option("--timeout", help="How long it may run, such as 90m or 4h.")
    ] = None,
    retries: Annotated[
        int | None,
        typer.Option(
            "--retries", min=0, help="Attempts after a failure; by default queue.retries of the file."
        ),
    ] = None,
    preemptible: Annotated[
        bool | None,
        typer.Option("--preemptible/--not-preemptible", help="Whether it may be stopped for others."),
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option("--checkpoint", metavar="s3://...", help="Where it keeps checkpoints.")
    ] = None,
    array: Annotated[int | None, typer.Option("--array", min=1, help="So many jobs alike.")] = None,
    after: Annotated[
        str | None, typer.Option("--after", metavar="JOB", help="Wait until this job has succeeded.")
    ] = None,
    may_idle: Annotated[
        bool, typer.Option("--may-idle", help="It waits at times: never stop it as idle.")
    ] = False,
    key: Annotated[
        str | None, typer.Option("--idempotency-key", help="The same key again makes no second job.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say whether it fits, what it costs, what it waits for.")
    ] = False,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait", help="Return when it has ended, and say what it waits for; exit 1 unless it succeeded."
        ),
    ] = False,
    at_most: Annotated[
        str | None,
        typer.Option("--at-most", help="With --wait: exit 1 if it has not ended after so long, such as 15m."),
    ] = None,
    tenant: TenantOption = None,
    server: ServerOption = None,
    format: FormatOption = "text",
) -> None:
    """Submit a job: a container with --image, or an HTTP request with --url.

    Example: gpupool jobs submit --pool t4 --tenant vision --image torch:2.9 -- python train.py
    """
    given: Given = {
        "gpu_pool_requested": ("--pool", pool),
        "container_image": ("--image", image),
        "container_command": ("COMMAND", command or None),
        "target_url": ("--url", url),
        "request_json": ("--request", jobs_values.content(request)),
        "gpu_count": ("--gpus", gpus),
        "gpu_type": ("--gpu", gpu),
        "isolation_level": ("--isolation", isolation),
        "priority": ("--priority", priority),
        "project_id": ("--project", project),
        "job_name": ("--name", name),
        "env": ("--env", jobs_values.variables(env)),
        "budget_limit_usd": ("--budget", jobs_values.usd(budget)),
        "timeout_seconds": ("--timeout (in seconds)", jobs_values.seconds(timeout)),
        "retries": ("--retries", retries),
        "preemptible": ("--preemptible", preemptible),
        "checkpoint_s3_path": ("--checkpoint", checkpoint),
        "array": ("--array", array),
        "depends_on": ("--after", after),
        "may_idle": ("--may-idle", may_idle or None),
    }
    spec: JobSpec = {name: value for name, (_, value) in given.items() if value is not None}  # type: ignore[assignment]
    limit_s = jobs_values.seconds(at_most, "--at-most")
    if limit_s is not None and not wait:
        raise UsageError("--at-most bounds how long --wait waits; give --wait with it")
    with asked(server, tenant, given, patient=wait) as client:
        if dry_run:
            forecast = client.validate_job(**spec)
            _print(format, forecast.data, lambda: jobs_text.print_forecast(forecast))
            return
        job = client.submit_job(idempotency_key=key, **spec)
        if not wait:
            _print(format, job.data, lambda: jobs_text.print_submitted(job))
            return
        jobs = jobs_followed.all_ended(client, job, limit_s)
        job = next((one for one in jobs if not one.succeeded), jobs[0])
        answer = job.data if array is None else {"jobs": [one.data for one in jobs]}
        _print(format, answer, lambda: jobs_text.print_ended(jobs))
        if format == "text":
            jobs_text.print_timeline(client.history(job.id))
    if not job.succeeded:
        raise typer.Exit(1)


@app.command(name="list")
def list_(
    state: Annotated[
        list[str] | None, typer.Option("--state", help="Only in this state; may be repeated.")
    ] = None,
    project: Annotated[str | None, typer.Option("--project", help="Only of this project.")] = None,
    pool: Annotated[str | None, typer.Option("--pool", help="Only on this pool.")] = None,
    user: Annotated[str | None, typer.Option("--user", help="Only of this user.")] = None,
    group: Annotated[str | None, typer.Option("--group", help="Only of this array.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 50,
    tenant: TenantOption = None,
    server: ServerOption = None,
    format: FormatOption = "text",
) -> None:
    """List jobs, newest first.

    Example: gpupool jobs list --state queued --state running
    """
    with asked(server, tenant) as client:
        found = client.jobs(
            *(state or ()), project=project, pool=pool, user=user, group=group, page_size=min(limit, 200)
        )
        jobs = list(islice(found, limit))
    _print(format, {"jobs": [job.data for job in jobs]}, lambda: jobs_text.print_jobs(jobs))


@app.command()
def show(
    job: JobArgument,
    tenant: TenantOption = None,
    server: ServerOption = None,
    format: FormatOption = "text",
) -> None:
    """Show a job with everything that happened to it.

    Example: gpupool jobs show 0195d6c8-2f3a-7e11-b7a5-6f1d2c3b4a59
    """
    with asked(server, tenant) as client:
        found, history = client.job(job), client.history(job)
    answer = {**found.data, "events": [event.data for event in history]}
    _print(format, answer, lambda: jobs_text.print_job(found, history))


@app.command()
def why(
    job: JobArgument,
    tenant: TenantOption = None,
    server: ServerOption = None,
    format: FormatOption = "text",
) -> None:
    """Say why a job waits: each term of the decision with its numbers.

    Example: gpupool jobs why 0195d6c8-2f3a-7e11-b7a5-6f1d2c3b4a59
    """
    with asked(server, tenant) as client:
        found = client.why(job)
    _print(format, found.data, lambda: jobs_text.print_why(found))


@app.command()
def cancel(
    jobs: Annotated[list[str], typer.Argument(metavar="JOB...", help="Ids of jobs.")],
    tenant: TenantOption = None,
    server: ServerOption = None,
    format: FormatOption = "text",
) -> None:
    """Cancel jobs: at once while they are queued, else they are asked to stop.

    Example: gpupool jobs cancel 0195d6c8-2f3a-7e11-b7a5-6f1d2c3b4a59
    """
    with asked(server, tenant) as client:
        found = [client.cancel_job(id) for id in jobs]
    _print(format, {"jobs": [job.data for job in found]}, lambda: jobs_text.print_cancelled(found))


@app.command()
def logs(
    job: JobArgument,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the job has ended.")] = False,
    attempt: Annotated[int | None, typer.Option("--attempt", min=1, help="Only of this attempt.")] = None,
    raw: Annotated[
        bool,
        typer.Option(
            "--raw", help="Send control characters to the terminal as well; a file or pipe always gets them."
        ),
    ] = False,
    tenant: TenantOption = None,
    server: ServerOption = None,
    format: FormatOption = "text",
) -> None:
    """Print a job's output, of all its attempts; stderr says where each of several begins.

    Example: gpupool jobs logs --follow 0195d6c8-2f3a-7e11-b7a5-6f1d2c3b4a59
    """
    with asked(server, tenant) as client:
        if follow:
            jobs_followed.begun(client, job)
        if format == "json":
            print_json({"id": job, "lines": list(client.logs(job, follow, attempt))})
            return
        for line in jobs_followed.output(client, job, follow, attempt):
            write_raw(f"{line}\n") if raw else print(line)
            if follow:
                sys.stdout.flush()


@app.command()
def watch(
    job: Annotated[
        str | None, typer.Argument(metavar="JOB", help="Id of a job; default: all that may be seen.")
    ] = None,
    tenant: TenantOption = None,
    server: ServerOption = None,
    format: FormatOption = "text",
) -> None:
    """Print events as they happen: of one job until it has ended, or of all jobs without end.

    Example: gpupool jobs watch 0195d6c8-2f3a-7e11-b7a5-6f1d2c3b4a59
    """
    with asked(server, tenant) as client:
        for event in jobs_followed.events(client, job) if job else client.events():
            # One JSON text a line: the answer has no end.
            print(json.dumps(event.data) if format == "json" else jobs_text.event_line(event), flush=True)


def _print(format: Format, data: Any, text: Any) -> None:
    if format == "json":
        print_json(data)
    else:
        text()
