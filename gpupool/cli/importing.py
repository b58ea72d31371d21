"""`gpupool import ENV`: a live cluster as an environment file, and the list of what it can't show.

Arguments and printing only; `gpupool.importing.live` reads, `gpupool.cli.convert` writes and lists.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from gpupool.cli.convert import (
    ForceOption,
    GpuOption,
    MaxOption,
    OutputOption,
    StrictOption,
    chosen_gpus,
    environment_name,
    finish,
    refuse_overwriting,
)
from gpupool.cli.output import FindingFormatOption
from gpupool.cli.progress import progress
from gpupool.findings import UsageError


def import_(
    env: Annotated[str, typer.Argument(metavar="ENV", help="Name of the environment.", show_default=False)],
    context: Annotated[
        str | None, typer.Option("--context", help="Context of the kubeconfig; default: the current one.")
    ] = None,
    local: Annotated[bool, typer.Option("--local", help="Read the embedded control plane.")] = False,
    output: OutputOption = None,
    region: Annotated[str | None, typer.Option("--region", help="The cluster's region.")] = None,
    cluster: Annotated[str | None, typer.Option("--cluster", help="The cluster's name.")] = None,
    gpu: GpuOption = None,
    max: MaxOption = 1,
    recorded: Annotated[
        bool,
        typer.Option(
            "--recorded/--derived",
            help="Use the file that the cluster keeps, where it describes the same objects; or never.",
        ),
    ] = True,
    force: ForceOption = False,
    strict: StrictOption = False,
    format: FindingFormatOption = "text",
) -> None:
    """Write the environment file of a live cluster, and list what no object there can show.

    Reads nodes, Karpenter's pools, node classes and overlays, the GPU Operator's ClusterPolicy and the
    ConfigMaps that it names, PriorityClasses, namespaces with quotas, and what gpupool has left there. The
    cluster is not changed. Exit codes are those of `gpupool convert`.

    Example: gpupool import prod --context ml-prod --output environments/prod.yaml
    """
    from gpupool.cluster.kube_api import KubeApi
    from gpupool.cluster.local_layout import Layout, default_folder
    from gpupool.convert.draft import Choices
    from gpupool.importing.live import import_environment

    if local and context:
        raise UsageError("--local and --context name two clusters; give one of them")
    chosen = Choices(
        name=environment_name(env, output),
        region=region,
        cluster=cluster,
        max=max,
        gpus=chosen_gpus(gpu or []),
        kube_context=context,
    )
    refuse_overwriting(output, force)
    api = KubeApi.connect(Layout(default_folder()).kubeconfig if local else None, context)
    with progress(f"import {env}") as notify:
        imported = import_environment(api, chosen, notify, recorded)
    api.close()
    if imported.recorded and format == "text":
        sys.stderr.write("used unchanged: the file that the cluster keeps says the same as its objects\n")
    finish(imported.conversion, output, strict, format)
