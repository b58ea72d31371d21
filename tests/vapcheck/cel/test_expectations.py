"""Values, types, errors, costs and refusals as recorded from the API server's own compiler and evaluator."""

import json
from pathlib import Path

import pytest

from tests.vapcheck.cel.canonical import canonical
from vapcheck.cel.environment import Environment
from vapcheck.cel.errors import CompileError
from vapcheck.cel.program import Scope

RECORDED = json.loads((Path(__file__).parent / "expectations.json").read_text())
CASES = RECORDED["cases"]


@pytest.fixture(scope="module")
def environment() -> Environment:
    return Environment.admission(params=True)


def test_enough_is_recorded() -> None:
    assert sum("value" in case for case in CASES) > 900
    assert sum("error" in case for case in CASES) > 400
    assert sum("refused" in case for case in CASES) > 150


def test_values_types_and_costs(environment: Environment) -> None:
    scope = Scope(RECORDED["values"])
    differences = []
    for case in CASES:
        if "value" not in case:
            continue
        program = environment.compile(case["expression"])
        value, cost, error = program.run(scope)
        found = (canonical(value) if error is None else str(error), program.result_type, cost)
        if found != (case["value"], case["type"], case["cost"]):
            differences.append((case, found))
    assert differences == []


def test_errors_and_their_costs(environment: Environment) -> None:
    scope = Scope(RECORDED["values"])
    differences = []
    for case in CASES:
        if "error" not in case:
            continue
        value, cost, error = environment.compile(case["expression"]).run(scope)
        found = (str(error) if error else canonical(value), cost)
        # where cel-go fails inside it doesn't get to count
        wanted = (case["error"], cost if case["error"].startswith("internal error") else case["cost"])
        if found != wanted:
            differences.append((case, found))
    assert differences == []


def test_refusals(environment: Environment) -> None:
    accepted, reworded = [], []
    for case in CASES:
        if "refused" not in case:
            continue
        try:
            environment.compile(case["expression"])
        except CompileError as error:
            if error.message != case["refused"]:
                reworded.append(case["expression"])
        else:
            accepted.append(case["expression"])
    assert accepted == []
    assert len(reworded) < 0.2 * sum("refused" in case for case in CASES)  # the parser's own words differ
