"""Reads the command line of `policy check` where it is plain, without typer.

typer, and pydantic with which it checks options, take a fifth of a second to import: as long as judging a
thousand objects. Everything else (help, mistakes) is left to typer.
`gpupool.cli.policy` declares the options; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, get_args

from gpupool.cli.findings.outputs import FindingFormat
from gpupool.policy.check import Bind, Operation, Question

ONCE = {
    "-o": "output",
    "--format": "output",
    "--user": "user",
    "--operation": "operation",
    "--namespace": "namespace",
    "--bind": "bind",
    "--user-uid": "uid",
    "--subresource": "subresource",
    "--kubernetes-version": "kubernetes",
}
REPEATED = {
    "--policies": "policies",
    "--group": "groups",
    "--namespace-labels": "namespace_labels",
    "--user-extra": "extra",
}
"""Options with what they set; all of them take a value."""
_CHOICES: dict[str, tuple[str, ...]] = {
    "output": get_args(FindingFormat),
    "operation": tuple(Operation),
    "bind": tuple(Bind),
}
_TYPES: dict[str, type[StrEnum]] = {"operation": Operation, "bind": Bind}


def plain_question(arguments: Sequence[str]) -> tuple[Question, FindingFormat] | None:
    """The parsed question, or None where typer must parse it."""
    targets: list[str] = []
    single: dict[str, str] = {}
    many: dict[str, list[str]] = {}
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
            many.setdefault(REPEATED[name], []).append(value)
        else:
            single[ONCE[name]] = value
    if not targets or any(name in single and single[name] not in known for name, known in _CHOICES.items()):
        return None
    said: dict[str, Any] = {name: _TYPES.get(name, str)(value) for name, value in single.items()}
    output: FindingFormat = said.pop("output", "text")
    said |= {name: tuple(values) for name, values in many.items()}
    said["policies"] = tuple(map(Path, many.get("policies", ())))
    return Question(tuple(targets), **said), output
