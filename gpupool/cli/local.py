"""`gpupool local`: the control plane on this machine.

Starts, stops and shows it; `gpupool.local` implements it.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpupool.cli.output import Format, FormatOption, print_error, print_json, print_table
from gpupool.cli.progress import progress

if TYPE_CHECKING:
    from gpupool.local.control_plane import ControlPlane, ControlPlaneStatus

app = typer.Typer(
    help="Start, stop and inspect the control plane on this machine.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

FolderOption = Annotated[
    Path | None,
    typer.Option("--dir", help="Data folder. [default: $GPUPOOL_LOCAL_DIR or .gpupool/local]"),
]


@app.command()
def up(
    folder: FolderOption = None,
    build: Annotated[
        bool, typer.Option("--build", help="Build every program locally: no downloads, nothing from PATH.")
    ] = False,
    format: FormatOption = "text",
) -> None:
    """Start the control plane, or restart its dead components.

    etcd, kube-apiserver, kube-controller-manager, kube-scheduler, KWOK and Karpenter run as ordinary
    processes of your account, and a simulated GPU Operator adds GPUs to the nodes. A missing program is
    downloaded if a release of the same version is available and its checksum matches, and otherwise built
    once from pinned Go modules (about 12 minutes on two cores). If everything is already running, nothing is
    done. A dead component is restarted alone; if it was etcd or kube-apiserver, all components are restarted,
    on the same data.

    Example: gpupool local up && eval "$(gpupool local env)" && kubectl get nodes
    """
    with progress("local control plane") as step:
        status = _plane(folder).up(step, build)
    _show(status, format)


@app.command()
def down(folder: FolderOption = None, format: FormatOption = "text") -> None:
    """Stop the control plane and remove its data, including the Pulumi state of the stack `local`.

    A job queue that `gpupool serve --background` runs on it is stopped first; its data is kept.

    Example: gpupool local down
    """
    from gpupool.cli.queue.connections import queue_folder
    from gpupool.infra.pulumi_plugins import env as pulumi_env
    from gpupool.local.job_queue import JobQueue

    plane = _plane(folder)
    queue = JobQueue(queue_folder())
    carried = queue.works_in(plane.layout.data) and queue.stop()
    with progress("local control plane") as step:
        if folder is None and plane.layout.owned:
            pulumi_env.forget_settings()
        stopped = plane.down(step)
    if format == "json":
        print_json({"folder": str(plane.layout.data), "stopped": stopped, "job_queue_stopped": carried})
        return
    if carried:
        print(f"the job queue on it is stopped; its data in {queue.folder} is kept")
    if stopped:
        left = plane.layout.data.exists()
        print(f"stopped; {plane.layout.data} is left unchanged" if left else "stopped; its data is removed")
    elif plane.layout.data.exists():
        print(f"nothing to stop: {plane.layout.data} is not a control plane's folder and is left unchanged")
    else:
        print(f"nothing to stop in {plane.layout.data}")


@app.command()
def status(folder: FolderOption = None, format: FormatOption = "text") -> None:
    """Show which components run, where they listen, and the log to read for those that do not run.

    Exits with 1 unless all run.

    Example: gpupool local status --format json
    """
    found = _plane(folder).status()
    _show(found, format)
    if not found.healthy:
        raise typer.Exit(1)


@app.command()
def env(folder: FolderOption = None, format: FormatOption = "text") -> None:
    """Print the shell variables for kubectl and plain `pulumi preview -s local`.

    Example: eval "$(gpupool local env)"
    """
    from gpupool.infra.pulumi_plugins import env as pulumi_env
    from gpupool.programs import binaries

    plane = _plane(folder)
    if not plane.kubeconfig.exists():
        print_error(f"{plane.layout.data}: no control plane here; start one with `gpupool local up`")
        raise typer.Exit(1)
    values = {"KUBECONFIG": str(plane.kubeconfig)}
    if folder is None:
        values |= pulumi_env.environment(pulumi=binaries.find("pulumi"))
    kubectl = binaries.find("kubectl")
    if kubectl is not None and kubectl.parent.parent.parent == binaries.cache_folder():
        # The one on PATH, if any, is too old or too new for the server.
        values["PATH"] = f"{kubectl.parent}{os.pathsep}{values.get('PATH', os.environ.get('PATH', ''))}"
    if format == "json":
        print_json(values)
        return
    for name, value in values.items():
        print(f"export {name}={shlex.quote(value)}")


@app.command("try")
def try_pools(
    env: Annotated[str, typer.Argument(metavar="[ENV]", help="The environment that was applied.")] = "local",
    format: FormatOption = "text",
) -> None:
    """Run a job on one slice of every pool, and show the pools.

    Exits with 1 if a pod is not running within five minutes.

    Example: gpupool local try
    """
    from gpupool.environment.plan.resolve import read_plan
    from gpupool.live.cluster import access
    from gpupool.local import sample_jobs

    plan = read_plan(env)
    access.require_cluster(plan)
    with progress("sample jobs") as step:
        states = sample_jobs.run(plan, access.connect(plan), step)
    if format == "json":
        print_json({"environment": plan.environment, "pools": [state.as_dict() for state in states]})
    else:
        rows = [
            (
                state.pool.name,
                state.pool.gpu.key,
                state.pool.sharing.mode,
                f"{state.nodes}/{state.pool.nodes_max}",
                ", ".join(
                    f"{count} {name.removeprefix('nvidia.com/')}" for name, count in state.slices.items()
                ),
                "unknown" if state.usd_per_hour is None else f"{state.usd_per_hour:.2f}",
                state.pod,
            )
            for state in states
        ]
        print_table(
            ("pool", "gpu", "sharing", "nodes", "slices", "usd/h", "pod"), rows, right=("nodes", "usd/h")
        )
        free = f"kubectl delete jobs -A -l {sample_jobs.LABEL}"
        print(f"The pods hold their slices for a day. To free them: {free}")
    if not all(state.running for state in states):
        raise typer.Exit(1)


@app.command()
def monitoring(
    env: Annotated[str, typer.Argument(metavar="[ENV]", help="The environment that was applied.")] = "local",
    port: Annotated[
        int | None,
        typer.Option("--port", help="Port of Prometheus. [default: $GPUPOOL_PROMETHEUS_PORT or 9090]"),
    ] = None,
    alertmanager: Annotated[
        str | None,
        typer.Option("--alertmanager", metavar="HOST:PORT", help="Alertmanager to send alerts to."),
    ] = None,
    stop: Annotated[bool, typer.Option("--stop", help="Stop Prometheus and remove its data.")] = False,
    folder: FolderOption = None,
) -> None:
    """Run Prometheus with the environment's rules, for the job queue and simulated GPUs.

    The local cluster says which pod holds which slice; the pod's variable GPUPOOL_GPU_USE says how much of it
    the pod uses (0 to 1). Needs the program prometheus on PATH.

    Example: gpupool local monitoring
    """
    from gpupool.cli.queue.connections import monitoring_folder
    from gpupool.environment.plan.resolve import read_plan
    from gpupool.environment.spec.load import find_environment
    from gpupool.local.monitoring.prometheus import LocalPrometheus

    if alertmanager is not None and not re.fullmatch(r"[\w.-]+:\d{1,5}", alertmanager):
        raise typer.BadParameter(f"{alertmanager}: expected HOST:PORT, such as 127.0.0.1:9093")
    prometheus = LocalPrometheus(monitoring_folder())
    if stop:
        print("stopped; its data is removed" if prometheus.stop() else "nothing to stop")
        prometheus.purge()
        return
    plan, plane = read_plan(env), _plane(folder)
    if not plane.kubeconfig.exists():
        print_error(f"{plane.layout.data}: no control plane here; start one with `gpupool local up`")
        raise typer.Exit(1)
    queue = f"127.0.0.1:{os.environ.get('GPUPOOL_PORT') or 8021}"
    chosen = port or int(os.environ.get("GPUPOOL_PROMETHEUS_PORT") or 9090)
    with progress("monitoring") as step:
        file = find_environment(env).absolute()
        address = prometheus.start(plan, file, plane.kubeconfig, queue, chosen, step, alertmanager)
    print(f"prometheus: {address}, alerts: {address}/alerts")


def _plane(folder: Path | None) -> ControlPlane:
    # Imported here: `gpupool --help` and `render` must not pay for what only this verb needs.
    from gpupool.local.control_plane import ControlPlane

    return ControlPlane(folder.expanduser().absolute() if folder else None)


def _show(status: ControlPlaneStatus, format: Format) -> None:
    if format == "json":
        print_json(status.as_dict())
        return
    if not status.exists:
        print(f"{status.folder}: no control plane runs here; start one with `gpupool local up`")
        return
    rows = [
        (
            part.name,
            "running" if part.running else "DEAD",
            part.pid or "-",
            f"{part.memory_mib:.0f}" if part.memory_mib is not None else "-",
            _short(part.log),
        )
        for part in status.components
    ]
    print_table(("component", "state", "pid", "MiB", "log"), rows, right=("pid", "MiB"), fit=True)
    print(f"\n{status.server}  kubeconfig {_short(status.kubeconfig)}")
    for problem in status.problems:
        print_error(problem)
    if status.repairable:
        print_error("`gpupool local up` repairs it")


def _short(path: Path) -> str:
    """Relative to the working directory, if it is below."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
