"""The verbs: the one place where they are registered, with what help says above them.

A verb's module is imported when the verb is run, and imports what it needs then, so that every verb starts as
fast as it can.
"""

from __future__ import annotations

from typing import Annotated

import typer

from gpupool.cli.verbs import lazy_group

VERBS = {
    "init": "gpupool.cli.init",
    "validate": "gpupool.cli.environments",
    "plan": "gpupool.cli.environments",
    "render": "gpupool.cli.environments",
    "snippet": "gpupool.cli.snippet",
    "catalog": "gpupool.cli.catalog",
    "mig": "gpupool.cli.mig",
    "policy": "gpupool.cli.policy.app",
    "report": "gpupool.cli.report",
    "simulate": "gpupool.cli.simulate",
    "advise": "gpupool.cli.advise",
    "promote": "gpupool.cli.promote",
    "convert": "gpupool.cli.convert",
    "import": "gpupool.cli.importing",
    "doctor": "gpupool.cli.doctor",
    "preview": "gpupool.cli.stack",
    "up": "gpupool.cli.stack",
    "refresh": "gpupool.cli.stack",
    "destroy": "gpupool.cli.stack",
    "assert": "gpupool.cli.assertion",
    "handover": "gpupool.cli.handover",
    "repartition": "gpupool.cli.repartition",
    "rollback": "gpupool.cli.repartition",
    "jobs": "gpupool.cli.jobs.app",
    "local": "gpupool.cli.local",
    "serve": "gpupool.cli.serve",
    "keys": "gpupool.cli.keys",
}
"""Every verb with the module that holds it, in the order in which help lists them."""

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
    cls=lazy_group(VERBS),
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
