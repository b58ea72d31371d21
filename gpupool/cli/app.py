"""The verbs and their groups in `--help`. Verbs are registered here only.

A verb's module is imported when the verb is run, and imports what it needs then, so that every verb starts as
fast as it can.
"""

from __future__ import annotations

from typing import Annotated

import typer

from gpupool.cli.verbs import Verb, lazy_group

GROUPS = {
    "Files": {
        "init": Verb("gpupool.cli.init", "Create a project in this folder; overwrite nothing."),
        "validate": Verb(
            "gpupool.cli.environments", "Check environment files; report every error with its place."
        ),
        "show": Verb("gpupool.cli.environments", "Show an environment's slices, quotas and cost."),
        "render": Verb("gpupool.cli.environments", "Write an environment's objects, one file each."),
        "snippet": Verb("gpupool.cli.snippet", "Print the manifest of a workload that runs on a pool."),
        "catalog": Verb("gpupool.cli.catalog", "List the GPUs that a pool can name, or show one."),
        "mig": Verb("gpupool.cli.mig", "Check whether a MIG layout fits on a GPU, and why not."),
        "convert": Verb("gpupool.cli.convert", "Convert existing GPU settings into an environment file."),
    },
    "Review": {
        "policy": Verb("gpupool.cli.policy.app", "Check environments and manifests; test policies."),
        "report": Verb("gpupool.cli.report", "Show how a change affects nodes, quotas, cost and policy."),
        "simulate": Verb(
            "gpupool.cli.queue.simulate", "Simulate an environment on a job trace, without a cluster."
        ),
        "recommend": Verb(
            "gpupool.cli.queue.recommend", "Try changes to a file on a job trace; show the best."
        ),
        "promote": Verb("gpupool.cli.promote", "Promote an environment's changes to the next environment."),
    },
    "Cluster": {
        "import": Verb("gpupool.cli.importing", "Write an environment file for a live cluster."),
        "doctor": Verb("gpupool.cli.doctor", "Check the prerequisites of up; change nothing."),
        "preview": Verb("gpupool.cli.stack", "Show what up would change; change nothing."),
        "up": Verb("gpupool.cli.stack", "Apply the environment file to the cluster."),
        "refresh": Verb("gpupool.cli.stack", "Record changes that others made, so that up reverts them."),
        "destroy": Verb("gpupool.cli.stack", "Delete everything that up created."),
        "assert": Verb("gpupool.cli.assertion", "Compare the cluster with the file; exit 1 on drift."),
        "handover": Verb("gpupool.cli.handover", "Transfer ownership of objects to a new delivery engine."),
        "repartition": Verb("gpupool.cli.repartition", "Apply a changed layout to a pool's running nodes."),
        "rollback": Verb("gpupool.cli.repartition", "Return the cluster to its last known good state."),
    },
    "Jobs": {
        "jobs": Verb("gpupool.cli.queue.jobs.app", "Submit and follow jobs in the GPU job queue."),
        "serve": Verb("gpupool.cli.queue.serve", "Serve the job queue of an environment."),
        "keys": Verb("gpupool.cli.queue.keys", "Create, list and revoke API keys of the job queue."),
    },
    "This machine": {
        "local": Verb("gpupool.cli.local", "Start, stop and inspect the local control plane."),
    },
}
"""Every verb, in the order in which help lists them under these titles."""
RENAMED = {"plan": "show", "advise": "recommend"}
"""Earlier names of verbs with the present ones. Release 0.2 was the last with the earlier names; remove these
entries after the next release."""
VERBS = {name: verb.module for verbs in GROUPS.values() for name, verb in verbs.items()}
"""Every verb with the module that holds it."""

EXTRAS = {
    "jobs": "jobs",
    "simulate": "jobs",
    "recommend": "jobs",
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
"""The extra (pyproject.toml) that a verb needs. The other verbs need none."""

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
