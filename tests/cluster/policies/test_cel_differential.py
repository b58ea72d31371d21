"""Our CEL against the real API server's: same refusals to compile, same values, same errors.

Hundreds of generated expressions, over everything that a policy can say (cel_expressions.yaml).
GPUPOOL_DIFFERENTIAL_ROUNDS draws more expressions from the same pieces.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.cluster.policies.cel_engine import engine_outcome
from tests.cluster.policies.cel_expressions import Expression, expressions
from tests.cluster.policies.cel_server import CelServer, Outcome
from tests.cluster.policies.server import Server

EXPRESSIONS = expressions(int(os.environ.get("GPUPOOL_DIFFERENTIAL_ROUNDS", "1")))
LEAST = 500
CRASH = "internal error: interface conversion"
"""Where the cost tracking of the API server crashes (cel-go 0.26 ext/lists.go, given no list), its text is
that of the crash; we say the error that it was given."""


@pytest.fixture(scope="module")
def outcomes(compared: Path) -> Iterator[Mapping[str, Outcome]]:
    """What the server makes of every expression."""
    server = CelServer(Server(compared))
    try:
        yield server.outcomes(EXPRESSIONS)
    finally:
        server.remove()


def test_the_suite_sees_all_three_kinds_of_outcome(outcomes: Mapping[str, Outcome]) -> None:
    """A server that refuses everything, or a suite that asks nothing, must not look like agreement."""
    kinds = [outcome.kind for outcome in outcomes.values()]
    assert len(kinds) >= LEAST
    assert {kind: kinds.count(kind) > 80 for kind in ("value", "error", "refused")} == {
        "value": True,
        "error": True,
        "refused": True,
    }


@pytest.mark.parametrize(
    ("number", "expression"),
    [pytest.param(number, one, id=one.name) for number, one in enumerate(EXPRESSIONS)],
)
def test_engine_agrees_with_the_server(
    outcomes: Mapping[str, Outcome], number: int, expression: Expression
) -> None:
    ours, theirs = engine_outcome(number, expression), outcomes[expression.name]
    assert ours.kind == theirs.kind, f"{expression.text}\n  ours:   {ours}\n  server: {theirs}"
    if theirs.kind != "refused" and not theirs.text.startswith(CRASH):
        assert ours.text == theirs.text, expression.text
