"""The command line: where verbs are registered, and where errors turn into words and exit codes.

Exit 0 fine, 1 findings or failure, 2 wrong use. Verbs import what they need when they run, so that
`gpupool --help` and `render` start fast.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from cli import catalog, environments, local, mig, stack
from cli.output import print_failure

app = typer.Typer(
    name="gpupool",
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


for verb in (
    environments.validate,
    environments.plan,
    environments.render,
    catalog.catalog,
    mig.mig,
    stack.preview,
    stack.up,
    stack.refresh,
    stack.destroy,
):
    app.command()(verb)
app.add_typer(local.app, name="local")


def run() -> None:
    """Entry point of the `gpupool` command."""
    from gpupool.findings import GpupoolError, UsageError

    try:
        app(prog_name="gpupool")
    except GpupoolError as error:
        print_failure(error, as_json="--format json" in " ".join(sys.argv).replace("=", " "))
        sys.exit(2 if isinstance(error, UsageError) else 1)
    except BrokenPipeError:
        # The reader of a pipe (head, a pager) has seen enough; the interpreter must not complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


if __name__ == "__main__":
    run()
