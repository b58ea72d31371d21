"""Values in the outputs: what Python's names have no place in, and what is too long."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import pytest

from gpupool.cli.findings.outputs import write_report
from gpupool.cli.findings.values import LONGEST, json_values, spell
from tests.cli.policy_sample import DENIED, sample
from vapcheck.cel.environment import Environment
from vapcheck.cel.errors import EvaluationError
from vapcheck.cel.libraries.authorization import Decision
from vapcheck.cel.program import Scope
from vapcheck.cel.values import NONE, BoolKey, Uint, some

CEL = [
    "duration('1h')",
    "timestamp('2026-01-02T03:04:05Z')",
    "quantity('1Gi')",
    "ip('10.0.0.1')",
    "cidr('10.0.0.0/8')",
    "semver('1.2.3')",
    "url('https://example.com/a')",
    "b'abc'",
    "optional.of(quantity('5'))",
    "optional.none()",
    "[duration('1s'), duration('2s')]",
    "{'a': quantity('2')}",
]


def value_of(expression: str) -> Any:
    return Environment.admission().compile(expression).evaluate(Scope({}))


@pytest.mark.parametrize("expression", CEL)
def test_a_value_is_written_as_cel_would(expression: str) -> None:
    said = spell(value_of(expression), 200).replace('"', "'")
    assert said == expression.replace("'1h'", "'3600s'")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (value_of("type(quantity('1'))"), "kubernetes.Quantity"),
        (value_of("format.dns1123Label()"), "kubernetes.NamedFormat"),
        (Decision(False, "no role of ann allows it"), "not allowed: no role of ann allows it"),
        (Decision(True), "(allowed)"),
        (Decision(False, error="no such selector", errored=True), "(error: no such selector)"),
        (EvaluationError("no such key: a"), "(no such key: a)"),
        (float("nan"), 'double("NaN")'),
        (Uint(5), "5"),
        ({BoolKey(True): NONE, 1: some(2)}, '{"true": optional.none(), "1": optional.of(2)}'),
        ({"a": [None, True, 1.5, "ü"]}, '{"a": [null, true, 1.5, "ü"]}'),
    ],
)
def test_what_has_no_literal_is_named(value: Any, said: str) -> None:
    assert said in spell(value, 200)
    json.dumps(json_values({"x": value}), allow_nan=False)


def test_plain_values_stay_what_they_are() -> None:
    values = {"a": 1, "b": [None, True, "x"], "c": {"d": 1.5}, "e": "f" * LONGEST}
    assert json_values(values) == values


@pytest.mark.parametrize("output", ["json", "sarif"])
@pytest.mark.parametrize("value", ["x" * 5000, {"key": "y" * 5000}, ["z"] * 2000])
def test_long_values_are_shortened_for_machines(output: str, value: Any) -> None:
    stream = io.StringIO()
    write_report(sample(replace(DENIED, values={"long": value})).finding_report(), output, stream)
    log = json.loads(stream.getvalue())
    finding = log["findings"][0] if output == "json" else log["runs"][0]["results"][0]["properties"]
    assert len(finding["values"]["long"]) == LONGEST
    assert finding["values"]["long"].endswith("...")
