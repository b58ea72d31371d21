"""The command line: where verbs are registered, and where errors turn into words and exit codes.

Exit 0 fine, 1 findings or failure, 2 wrong use. A verb's module is imported when the verb is run, and
imports what it needs then, so that every verb starts as fast as it can.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from cli.output import print_failure
from cli.verbs import lazy_group

VERBS = {
    "validate": "cli.environments",
    "plan": "cli.environments",
    "render": "cli.environments",
    "catalog": "cli.catalog",
    "mig": "cli.mig",
    "policy": "cli.policy",
    "preview": "cli.stack",
    "up": "cli.stack",
    "refresh": "cli.stack",
    "destroy": "cli.stack",
    "local": "cli.local",
}
"""Every verb with the module that holds it, in the order in which help lists them."""

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


def run() -> None:
    """Entry point of the `gpupool` command."""
    from gpupool.findings import GpupoolError, UsageError

    try:
        app(prog_name="gpupool")
    except GpupoolError as error:
        print_failure(error, as_json=_asks_for_json(sys.argv[1:]))
        sys.exit(2 if isinstance(error, UsageError) else 1)
    except BrokenPipeError:
        # The reader of a pipe (head, a pager) has seen enough; the interpreter must not complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _asks_for_json(arguments: list[str]) -> bool:
    """Whether the answer is read by a machine; `-o` names a folder for `render` and a format for `policy`."""
    said = " ".join(arguments).replace("=", " ") + " "
    return "--format json " in said or (arguments[:1] == ["policy"] and "-o json " in said)


if __name__ == "__main__":
    run()
