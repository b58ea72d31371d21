"""The entry point: runs a verb, turns errors into words and exit codes. `cli.app` registers the verbs.

Exit 0 fine, 1 findings or failure, 2 wrong use.
"""

from __future__ import annotations

import os
import sys


def run() -> None:
    """Entry point of the `gpupool` command."""
    from gpupool.findings import GpupoolError, UsageError

    try:
        _run_verb(sys.argv[1:])
    except GpupoolError as error:
        from cli.output import print_failure

        print_failure(error, as_json=_asks_for_json(sys.argv[1:]))
        sys.exit(2 if isinstance(error, UsageError) else 1)
    except BrokenPipeError:
        # The reader of a pipe (head, a pager) has seen enough; the interpreter must not complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _run_verb(arguments: list[str]) -> None:
    if arguments[:2] == ["policy", "check"]:
        from cli.policy_arguments import plain_question

        asked = plain_question(arguments[2:])
        if asked is not None:
            from cli.policy_check import answer

            sys.exit(answer(*asked))
    from cli.app import app

    app(prog_name="gpupool")


def _asks_for_json(arguments: list[str]) -> bool:
    """Whether the answer is read by a machine; `-o` names a folder for `render` and a format for `policy`."""
    said = " ".join(arguments).replace("=", " ") + " "
    return "--format json " in said or (arguments[:1] == ["policy"] and "-o json " in said)


if __name__ == "__main__":
    run()
