"""`gpupool import ENV`: a live cluster as an environment file, and a list of what the cluster does not show.

Arguments and printing only; `gpupool.adopt.importing.live` reads, `gpupool.cli.convert` writes and lists.
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
    local: Annotated[bool, typer.Option("--local", help="Read the local control plane.")] = False,
    output: OutputOption = None,
    region: Annotated[str | None, typer.Option("--region", help="The cluster's region.")] = None,
    cluster: Annotated[str | None, typer.Option("--cluster", help="The cluster's name.")] = None,
    gpu: GpuOption = None,
    max: MaxOption = 1,
    recorded: Annotated[
        bool,
        typer.Option(
            "--recorded/--derived",
            help="Use the file stored in the cluster if it describes the same objects, or never.",
        ),
    ] = True,
    force: ForceOption = False,
    strict: StrictOption = False,
    format: FindingFormatOption = "text",
) -> None:
    """Write an environment file for a live cluster, and list what its objects do not show.

    Reads nodes, Karpenter's pools, node classes and overlays, the GPU Operator's ClusterPolicy and the
    ConfigMaps that it names, PriorityClasses, namespaces with quotas, and gpupool's own objects. The cluster
    is not changed. Exit codes are those of `gpupool convert`.

    Example: gpupool import prod --context ml-prod --output environments/prod.yaml
    """
    from gpupool.adopt.convert.draft import Choices
    from gpupool.adopt.importing.live import import_environment
    from gpupool.live.cluster.kube_api import KubeApi
    from gpupool.live.cluster.local_layout import Layout, default_folder

    if local and context:
        raise UsageError("--local and --context name different clusters; use one of them")
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
        sys.stderr.write("the file stored in the cluster matches its objects, and is used unchanged\n")
    finish(imported.conversion, output, strict, format)
