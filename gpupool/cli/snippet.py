"""`gpupool snippet POOL`: the manifest of a workload that runs on a pool.

Asks `gpupool.generators.snippet` and prints. It must not decide what a workload says, nor judge it.
"""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from gpupool.cli.output import print_json
from gpupool.findings import UsageError

Kind = Literal["pod", "deployment", "job", "raycluster", "sparkapplication", "pytorchjob", "kubeflow"]


def snippet(
    pool: Annotated[str, typer.Argument(metavar="POOL", help="A pool's name.")],
    env: Annotated[
        str | None,
        typer.Option(metavar="ENV", help="An environment's name or a file's path.  [default: the only one]"),
    ] = None,
    slices: Annotated[int | None, typer.Option(min=1, help="GPUs or slices per pod.  [default: 1]")] = None,
    profile: Annotated[
        str | None, typer.Option(metavar="PROFILE", help="MIG profile, where the pool has several.")
    ] = None,
    kind: Annotated[
        Kind,
        typer.Option("--for", help="kubeflow: an Argo Workflow of one step, as pipelines run."),
    ] = "pod",
    tenant: Annotated[
        str | None,
        typer.Option(help="Tenant whose namespace is used.  [default: the first that may use the pool]"),
    ] = None,
    shm_size: Annotated[
        str | None, typer.Option(help="Size of /dev/shm.  [default: half of the pod's memory]")
    ] = None,
    scratch_size: Annotated[
        str | None,
        typer.Option(help="Size limit of /scratch.  [default: the slices' share of the node's disk]"),
    ] = None,
    format: Annotated[
        Literal["yaml", "json"], typer.Option("--format", help="yaml to apply, json for machines.")
    ] = "yaml",
) -> None:
    """Print the manifest of a workload that runs on a pool, with image and command to fill in.

    Example: gpupool snippet notebooks --env prod --for deployment --tenant vision
    """
    from gpupool.environment.plan.resolve import read_plan
    from gpupool.environment.spec.load import environment_names
    from gpupool.generators.emit import yaml_text
    from gpupool.generators.snippet.wish import wish
    from gpupool.generators.snippet.workloads import workload

    if env is None:
        names = environment_names()
        if len(names) != 1:
            raise UsageError(f"add --env with one of: {', '.join(names) or 'none'}")
        (env,) = names
    wanted = wish(read_plan(env), pool, slices, profile, tenant, shm_size, scratch_size)
    made = workload(wanted, kind)
    if format == "json":
        print_json(made)
    else:
        print(yaml_text(made), end="")
