"""`gpupool serve`: the job queue of one environment.

Thin: options, and what is printed; `gpupool.queue.service` does the work.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpupool.cli.progress import progress
from gpupool.cli.queue.connections import database_url, nats_url, queue_folder
from gpupool.findings import GpupoolError, UsageError
from gpupool.findings.address_secrets import DATABASE, NATS

if TYPE_CHECKING:
    from gpupool.environment.plan.model import Plan
    from gpupool.queue.service import ServeOptions
    from vapcheck import Document


def serve(
    environment: Annotated[str, typer.Argument(metavar="ENV", help="An environment's name or file.")],
    role: Annotated[
        list[str] | None,
        typer.Option(help="api, dispatcher, relay, janitor or executor; repeatable. Default: all."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=1, max=65535, envvar="GPUPOOL_PORT", help="Port to listen on.")
    ] = 8021,
    database: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help=f"PostgreSQL, as postgresql://USER@HOST/NAME; with a password: set {DATABASE}. "
            "Default: an embedded one in .gpupool/queue.",
        ),
    ] = None,
    nats: Annotated[
        str | None,
        typer.Option(metavar="URL", help=f"NATS, instead of queue.nats; with credentials: set {NATS}."),
    ] = None,
    dev: Annotated[
        bool,
        typer.Option(
            "--dev",
            help="For this machine only: reading and HTTP jobs need no credential; container jobs need the "
            "token in .gpupool/queue, and their commands run on this machine.",
        ),
    ] = False,
    echo: Annotated[
        str | None,
        typer.Option(metavar="ORIGIN", help="With --dev: answer requests to this origin of queue.targets."),
    ] = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Run container jobs on the cluster that this file describes."),
    ] = None,
    acting_as: Annotated[
        str | None,
        typer.Option(
            "--as", metavar="USER", help="With --kubeconfig or --in-cluster: impersonate this user."
        ),
    ] = None,
    in_cluster: Annotated[
        bool, typer.Option("--in-cluster", help="Run container jobs on the cluster that this pod runs in.")
    ] = False,
    policies: Annotated[
        bool,
        typer.Option(
            "--policies",
            help="Check container jobs against the environment's policies.",
        ),
    ] = False,
    background: Annotated[
        bool, typer.Option("--background", help="Run in the background, with a NATS server.")
    ] = False,
    link: Annotated[
        bool,
        typer.Option("--link", help="Print a one-time link that signs a browser in to the queue with --dev."),
    ] = False,
    take_over: Annotated[
        bool,
        typer.Option(
            "--take-over",
            help="Give the cluster, which belongs to another database's queue, to this one.",
        ),
    ] = False,
    stop: Annotated[bool, typer.Option("--stop", help="Stop the queue in the background.")] = False,
    purge: Annotated[bool, typer.Option("--purge", help="With --stop: also delete its data.")] = False,
) -> None:
    """Serve the job queue of ENV: HTTP API, dispatcher, relay of events, janitor and executor.

    Runs all roles in one process, or, with --role, in several; any number of API processes, and one leader
    for each other role. The environment file is read again when it changes.

    Example: gpupool serve local --dev
    """
    from gpupool.environment.spec.load import find_environment
    from gpupool.queue.kubernetes.admission import Admission
    from gpupool.queue.service import ROLES, ServeOptions, configure_logging, serve

    if stop:
        _stop(purge)
        return
    if link:
        print(_link(port))
        return
    if take_over:
        from gpupool.cli.queue import take_over as taking_over

        print(taking_over.take_over(database))
        return
    if purge:
        raise UsageError("--purge removes a stopped queue's data; add --stop")
    roles = tuple(role or ROLES)
    unknown = [name for name in roles if name not in ROLES]
    if unknown:
        raise UsageError(f"unknown role {unknown[0]}; roles: {', '.join(ROLES)}")
    database, nats = database_url(database), nats_url(nats)
    if in_cluster and kubeconfig is not None:
        raise UsageError("give --kubeconfig or --in-cluster, not both")
    if acting_as is not None and kubeconfig is None and not in_cluster:
        raise UsageError(f"--as {acting_as}: add --kubeconfig or --in-cluster")
    judging = policies or in_cluster or kubeconfig is not None
    options = ServeOptions(
        environment=find_environment(environment),
        folder=queue_folder(),
        roles=roles,
        host=host,
        port=port,
        database=database,
        nats=nats,
        dev=dev,
        token=_token() if dev else None,
        echo=echo,
        kubeconfig=kubeconfig,
        acting_as=acting_as,
        in_cluster=in_cluster,
        admission=Admission(_objects) if judging else None,
    )
    if background:
        _in_background(sys.argv[1:], options)
        return
    configure_logging()
    import uvloop

    uvloop.run(serve(options, ready=lambda address: print(f"the queue is at {address}")))


def _objects(plan: Plan) -> Sequence[Document]:
    """Everything that the environment amounts to, policies included."""
    from gpupool.generators import generate
    from gpupool.policy.gate import documents_of

    return documents_of(plan, generate(plan))


def _in_background(arguments: list[str], options: ServeOptions) -> None:
    from gpupool.local.job_queue import JobQueue

    given = [argument for argument in arguments if argument != "--background"]
    kubeconfig = options.kubeconfig.absolute() if options.kubeconfig else None
    with progress("job queue") as step:
        started = JobQueue(options.folder).start(
            given,
            options.port,
            step,
            asked={"environment file": str(options.environment.resolve())},
            kubeconfig=kubeconfig,
        )
    if started.replaced:
        print(f"the running job queue is replaced: it had another {', '.join(started.replaced)}")
    again = "is already running" if started.already else "runs"
    print(f"the job queue {again} at {started.address}; its log is {started.log}")
    if started.trouble:
        raise GpupoolError(f"the job queue accepts jobs, but does not start them: {started.trouble}")


def _token() -> Path:
    from gpupool.client import local_token

    folder = queue_folder()
    try:
        return local_token.ensure(folder)
    except OSError as error:
        raise GpupoolError(
            f"{folder}: the queue's token can't be kept there: {error.strerror}; name a folder of your own in"
            " GPUPOOL_QUEUE_DIR"
        ) from None


def _link(port: int) -> str:
    from gpupool.client import local_token

    path = queue_folder() / local_token.NAME
    token = local_token.read(path)
    if token is None:
        raise UsageError(f"no token in {path}; start `gpupool serve ENV --dev` first")
    # An address and no name: no other account can listen there while the queue does.
    return f"http://127.0.0.1:{port}/login?once={local_token.seal(token, 'link', port, local_token.LINK_S)}"


def _stop(purge: bool) -> None:
    from gpupool.local.job_queue import JobQueue

    queue = JobQueue(queue_folder())
    stopped = queue.stop()
    if purge:
        queue.purge()
    data = "removed" if purge else "kept"
    print(f"the job queue is stopped; its data is {data}" if stopped else "no job queue runs here")
