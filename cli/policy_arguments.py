"""Reads the command line of `policy check` where it is plain, without typer.

typer, and pydantic with which it checks options, take a fifth of a second to import: as long as judging a
thousand objects. Whatever is not plain (help, a mistake) is left to typer and its words.
`cli.policy` declares the options; a test holds both to each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cli.policy_check import Operation, Question
from cli.policy_outputs import Output

ONCE = {"-o": "output", "--format": "output", "--user": "user", "--operation": "operation"}
REPEATED = {"--policies": "policies", "--group": "groups"}
"""Options with what they set; all of them take a value."""


def plain_question(arguments: Sequence[str]) -> tuple[Question, Output] | None:
    """What is asked, or None where typer is to read it."""
    targets: list[str] = []
    single: dict[str, str] = {}
    many: dict[str, list[str]] = {"policies": [], "groups": []}
    rest = iter(arguments)
    for argument in rest:
        if argument == "-" or not argument.startswith("-"):
            targets.append(argument)
            continue
        name, equals, value = argument.partition("=")
        if (name not in ONCE and name not in REPEATED) or (equals and not name.startswith("--")):
            return None
        if not equals:
            value = next(rest, "-")
        if not value or value.startswith("-"):
            return None
        if name in REPEATED:
            many[REPEATED[name]].append(value)
        else:
            single[ONCE[name]] = value
    output, operation = (
        single.get("output", Output.text.value),
        single.get("operation", Operation.CREATE.value),
    )
    if not targets or output not in list(Output) or operation not in list(Operation):
        return None
    policies = tuple(Path(path) for path in many["policies"])
    asked = Question(
        tuple(targets), policies, single.get("user"), tuple(many["groups"]), Operation(operation)
    )
    return asked, Output(output)
