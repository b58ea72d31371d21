"""The verbs: the one place where they are registered, with what help says above them.

A verb's module is imported when the verb is run, and imports what it needs then, so that every verb starts as
fast as it can.
"""

from __future__ import annotations

from typing import Annotated

import typer

from gpupool.cli.verbs import Verb, lazy_group

GROUPS = {
    "Files": {
        "init": Verb("gpupool.cli.init", "Start a project in this folder; overwrite nothing."),
        "validate": Verb(
            "gpupool.cli.environments", "Check environment files; report every error with its place."
        ),
        "show": Verb("gpupool.cli.environments", "Show an environment's slices, quotas and cost."),
        "render": Verb("gpupool.cli.environments", "Write every object of an environment, one file each."),
        "snippet": Verb("gpupool.cli.snippet", "Print the manifest of a workload that runs on a pool."),
        "catalog": Verb("gpupool.cli.catalog", "List the GPUs that a pool can name, or show one."),
        "mig": Verb("gpupool.cli.mig", "Place a MIG layout on a GPU, or say why it can't be placed."),
        "convert": Verb("gpupool.cli.convert", "Turn hand-written GPU settings into an environment file."),
    },
    "Review": {
        "policy": Verb("gpupool.cli.policy.app", "Check environments and manifests; test the policies."),
        "report": Verb("gpupool.cli.report", "Show what a change does to nodes, quotas, cost and policy."),
        "simulate": Verb(
            "gpupool.cli.simulate", "Run jobs of the past on an environment, without a cluster."
        ),
        "recommend": Verb(
            "gpupool.cli.recommend", "Try changes of a file on jobs of the past; show the best."
        ),
        "promote": Verb("gpupool.cli.promote", "Carry an environment's changes into the next one's file."),
    },
    "Cluster": {
        "import": Verb("gpupool.cli.importing", "Write the environment file of a live cluster."),
        "doctor": Verb("gpupool.cli.doctor", "Say what is missing before a first up; change nothing."),
        "preview": Verb("gpupool.cli.stack", "Show what up would change; change nothing."),
        "up": Verb("gpupool.cli.stack", "Make the cluster what the environment file says."),
        "refresh": Verb("gpupool.cli.stack", "Record what others have changed, so that up restores it."),
        "destroy": Verb("gpupool.cli.stack", "Delete everything that up has made."),
        "assert": Verb("gpupool.cli.assertion", "Compare the cluster with the file; exit 1 on drift."),
        "handover": Verb("gpupool.cli.handover", "Give the objects to the engine that delivers from now on."),
        "repartition": Verb("gpupool.cli.repartition", "Bring a pool's running nodes into a changed layout."),
        "rollback": Verb("gpupool.cli.repartition", "Return the cluster to its last good state."),
    },
    "Jobs": {
        "jobs": Verb("gpupool.cli.jobs.app", "Submit jobs to the GPU job queue, and follow them."),
        "serve": Verb("gpupool.cli.serve", "Serve the job queue of an environment."),
        "keys": Verb("gpupool.cli.keys", "Create, list and revoke API keys of the job queue."),
    },
    "This machine": {
        "local": Verb("gpupool.cli.local", "Start, stop and inspect the local control plane."),
    },
}
"""Every verb, in the order in which help lists them under these titles."""
RENAMED = {"plan": "show", "advise": "recommend"}
"""Verbs of release 0.1 that have another name now."""
VERBS = {name: verb.module for verbs in GROUPS.values() for name, verb in verbs.items()}
"""Every verb with the module that holds it."""

EXTRAS = {
    "policy": "policy",
    "report": "policy",
    "import": "cluster",
    "doctor": "pulumi",
    "preview": "pulumi",
    "up": "pulumi",
    "refresh": "pulumi",
    "destroy": "pulumi",
    "assert": "cluster",
    "handover": "cluster",
    "repartition": "pulumi",
    "rollback": "pulumi",
    "local": "local",
    "serve": "queue",
    "keys": "queue",
}
"""The extra (pyproject.toml) that is for a verb. The others run with what is always installed."""

app = typer.Typer(
    name="gpupool",
    cls=lazy_group(GROUPS, RENAMED),
    help="GPU pools as code: one YAML file per environment, everything else derived.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        from gpupool import __version__

        print(f"gpupool {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """GPU pools as code: one YAML file per environment, everything else derived.

    ENV is an environment's name (environments/ENV.yaml) or the path of a file.
    """
