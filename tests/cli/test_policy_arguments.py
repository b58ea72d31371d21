"""The plain reading of `policy check` agrees with typer's, and leaves to it what is not plain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from gpupool.cli.app import app
from gpupool.cli.findings.outputs import FindingFormat
from gpupool.cli.policy import app as policy
from gpupool.cli.policy.arguments import ONCE, REPEATED, plain_question
from gpupool.policy.check import Operation, Question

PLAIN = [
    ["prod"],
    ["a", "-", "b/c.yaml"],
    ["a", "-o", "json"],
    ["--format=sarif", "a"],
    ["--format", "junit", "a", "-o", "github"],
    ["a", "--policies", "p", "--policies=q/r", "--user", "ann", "--group", "x", "--group", "y"],
    ["a", "--namespace", "shop", "--namespace-labels=a=b,c=d", "--namespace-labels", "e=", "--bind", "warn"],
    ["a", "--subresource", "pods/exec", "--user-uid", "u-1", "--user-extra", "k/a=b=c", "--user-extra=k/a=d"],
    ["--operation", "UPDATE", "a", "--user=system:serviceaccount:ns:name"],
]


def typers(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> tuple[Question, FindingFormat]:
    """What typer makes of the arguments."""
    asked: list[tuple[Question, FindingFormat]] = []

    def answer(question: Question, output: str) -> int:
        asked.append((question, output))
        return 0

    monkeypatch.setattr(policy, "answer", answer)
    get_command(app).main(["policy", "check", *arguments], standalone_mode=False)
    return asked[0]


@pytest.mark.parametrize("arguments", PLAIN)
def test_both_read_the_same(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    plain = plain_question(arguments)
    assert plain is not None
    assert plain == typers(arguments, monkeypatch)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--help"],
        ["a", "--help"],
        ["a", "-o"],
        ["a", "-o", "xml"],
        ["a", "-ojson"],
        ["a", "-o=json"],
        ["a", "--operation", "CONNECT"],
        ["a", "--operation", "update"],
        ["a", "--bind", "Deny"],
        ["a", "--polices", "p"],
        ["a", "--user", "--group"],
        ["a", "--user="],
        ["--", "-x"],
    ],
)
def test_what_is_not_plain_is_left_to_typer(arguments: list[str]) -> None:
    assert plain_question(arguments) is None


def test_every_option_that_typer_knows_is_read() -> None:
    policy = get_command(app).get_command(None, "policy")  # type: ignore[attr-defined]
    command: Any = policy.commands["check"]
    known = {name for option in command.params for name in option.opts if name.startswith("-")}
    assert known == {*ONCE, *REPEATED}


def test_what_is_read() -> None:
    assert plain_question(PLAIN[5]) == (
        Question(("a",), (Path("p"), Path("q/r")), "ann", ("x", "y"), Operation.CREATE),
        "text",
    )
