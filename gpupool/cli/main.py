"""The entry point: runs a verb, turns errors into messages and exit codes. `gpupool.cli.app` registers the
verbs.

Exit codes: 0 success, 1 findings or failure, 2 usage error or output that can't be written, 3 no answer from
a queue, 130 interrupted.
"""

from __future__ import annotations

import errno
import gc
import io
import os
import sys
from itertools import pairwise

from gpupool.findings.terminal import protect

_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)
"""Errors of the place that something is written to, not of what is read."""


def run() -> None:
    """Entry point of the `gpupool` command."""
    protect()
    try:
        _run()
    except KeyboardInterrupt:
        _drop_output()
        sys.exit(130)
    except BrokenPipeError:
        # The reader of a pipe (head, a pager) has seen enough; the interpreter must not complain at exit.
        _drop_output()
        sys.exit(1)
    except OSError as error:
        if error.errno not in _UNWRITABLE or error.filename is not None:
            raise
        _drop_output()
        from gpupool.cli.output import print_error

        print_error(f"can't write the output: {error.strerror}; write it elsewhere")
        sys.exit(2)


def _run() -> None:
    from gpupool.findings import GpupoolError

    arguments = _own(sys.argv[1:])
    format = _format(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal may not know every character of a name; JSON is UTF-8 wherever it goes (RFC 8259, 8.1).
        sys.stdout.reconfigure(encoding="utf-8" if format == "json" else None, errors="backslashreplace")
    try:
        _refuse_empty(arguments)
        _run_verb(sys.argv[1:])
    except GpupoolError as error:
        from gpupool.cli.output import print_failure

        print_failure(error, format)
        sys.exit(error.exit_code)
    finally:
        sys.stdout.flush()  # here, where its error can be reported


def _own(arguments: list[str]) -> list[str]:
    """Without the command of a job, in which anything may be meant."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if own[:1] != ["jobs"]:
        return own
    try:
        from gpupool.cli.queue.jobs.options import before_command
    except ModuleNotFoundError:  # running the verb reports what is not installed
        return own
    from gpupool.cli.verbs import command_of

    verb = command_of("gpupool.cli.queue.jobs.app", own[1:2])
    return [*own[:2], *before_command(verb, own[2:])]


def _refuse_empty(arguments: list[str]) -> None:
    """No verb accepts an empty value, and as a path it would mean the current folder: usually it is an unset
    variable of the shell."""
    from gpupool.findings import UsageError

    for position, argument in enumerate(arguments, start=1):
        if not argument or (argument.startswith("--") and argument.find("=") == len(argument) - 1):
            import shlex

            reported = shlex.join(["gpupool", *arguments[:position]])
            raise UsageError(f"{reported}: the last argument is empty; give a value or omit it")


def _drop_output() -> None:
    """Discard further output: writing it would fail again when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run_verb(arguments: list[str]) -> None:
    try:
        _start_verb(arguments)
    except ModuleNotFoundError as error:
        from gpupool.cli.app import EXTRAS
        from gpupool.cli.extras import refusal

        verb = arguments[0] if arguments else "--help"
        raise refusal(verb, EXTRAS.get(verb), error) from None


def _start_verb(arguments: list[str]) -> None:
    if arguments[:2] == ["policy", "check"]:
        # A check creates almost no cyclic garbage, and looking for it takes a tenth of the time, half of that
        # when the interpreter ends.
        gc.disable()
        from gpupool.cli.policy.arguments import plain_question

        asked = plain_question(arguments[2:])
        if asked is not None:
            from gpupool.cli.policy.answer import answer

            sys.exit(answer(*asked))
    from gpupool.cli.app import app

    app(prog_name="gpupool")


def _format(arguments: list[str]) -> str:
    """The format that is asked for; text where none is. `-o` names a folder for `render` alone."""
    options = ("--format",) if arguments[:1] == ["render"] else ("--format", "-o")
    said = " ".join(arguments).replace("=", " ").split(" ")
    return next((value for option, value in pairwise(said) if option in options), "text")


if __name__ == "__main__":
    run()
