"""Expressions that the checker can't take whole: very deep ones, and those that optMap() spoils."""

from typing import Any

import pytest

from vapcheck.cel.environment import Environment
from vapcheck.cel.errors import CompileError, EvaluationError
from vapcheck.cel.explanation import explain
from vapcheck.cel.program import Scope

ADMISSION = Environment.admission()
NAMES = Scope({"object": {"names": ["a", "b"], "deep": {}}})


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1" + " + 1" * 250, 251),
        ("'a'" + ".trim()" * 250, "a"),
        ("false ? 1 : " * 249 + "0", 0),
        ("object" + ".?a" * 249 + ".orValue(1)", 1),
        ("(" * 249 + "1" + ")" * 249, 1),
        ("[1]" + ".map(x, x)" * 100, [1]),
        ("[" * 60 + "1" + "]" * 60 + "[0]" * 60, 1),
        ("object.names.map(n, n" + " + ', ' + n" * 33 + ")[0].size()", 100),
        ("{'k': 3}.transformList(k, v, v" + " + v" * 40 + ")", [123]),
        ("optional.of(2).optMap(v, v" + " + v" * 40 + ").orValue(1)", 82),
        ("[[3], [5]].map(l, l.map(v, v" + " + v" * 40 + ").map(w, w + l[0]))", [[126], [210]]),
        ("[1].map(_p0, _p0" + " + _p0" * 40 + ")", [41]),
        ("{'a': 1}.transformList(k, v, v)[?0].optMap(x, x + 1).orValue(9)", 2),
        ("[1].map(x, {'a': 1}.transformList(k, v, v + x)[?0].optFlatMap(y, optional.of(y)).orValue(0))", [2]),
    ],
)
def test_what_the_api_server_takes_is_taken(expression: str, value: Any) -> None:
    assert ADMISSION.compile(expression).evaluate(NAMES) == value


@pytest.mark.parametrize(
    "expression",
    ["1" + " + 1" * 251, "'a'" + ".trim()" * 251, "false ? 1 : " * 250 + "0", "(" * 250 + "1" + ")" * 250],
)
def test_beyond_250_levels_nothing_is_taken(expression: str) -> None:
    with pytest.raises(CompileError, match="max recursion depth exceeded"):
        ADMISSION.compile(expression)


@pytest.mark.parametrize(
    ("expression", "line", "column", "text"),
    [
        ("request.name + " * 33 + "request.nam", 1, 15 * 33 + 8, "undefined field 'nam'"),
        ("1\n" + " + 1\n" * 40 + " + 'a'", 42, 2, "applied to '(int, string)'"),
        ("[1].map(x, x" + " + x" * 40 + " + 'a')", 1, 12 + 4 * 40 + 2, "applied to '(int, string)'"),
        ("object.spec.map(t, t.name" + " + ' '" * 40 + " + vv)", 1, 25 + 6 * 40 + 4, "reference to 'vv'"),
        ("{'a': 1}.transformList(k, v, v)[?0].optMap(x, v)", 1, 47, "undeclared reference to 'v'"),
        ("[1, 'a'" + ", 1" * 40 + "].map(x, x" + " + x" * 40 + ")", 1, 5, "expected type 'int'"),
    ],
)
def test_refusals_have_their_place_in_the_whole(expression: str, line: int, column: int, text: str) -> None:
    with pytest.raises(CompileError) as caught:
        ADMISSION.compile(expression)
    assert text in caught.value.message
    assert (caught.value.line, caught.value.column) == (line, column)


def test_types_are_those_of_the_whole_expression() -> None:
    groups = ADMISSION.compile(
        "[request.userInfo]" + ".filter(u, u.username != '')" * 30 + ".map(u, u.groups)"
    )
    assert groups.result_type == "list(list(string))"
    assert groups.reads == {"request"}
    optional = ADMISSION.compile("object" + ".?a" * 40)
    assert optional.result_type == "optional_type(dyn)"


def test_a_deep_expression_in_a_variable_is_explained() -> None:
    text = ADMISSION.compile("'in'" + " + ' ' + object.names[0]" * 100)
    environment = ADMISSION.with_variable("text", text)
    program = environment.compile("variables.text" + ".trim()" * 200 + " == 'x'")
    scope = NAMES.with_variables({"text": text})
    assert program.evaluate(scope) is False
    (reading, *_) = explain(program, scope).readings
    assert reading[1] == "in" + " a" * 100


def test_an_error_deep_inside_is_reported() -> None:
    program = ADMISSION.compile("object.deep" + ".a" * 100 + " == 'x'")
    with pytest.raises(EvaluationError, match="no such key: a"):
        program.evaluate(NAMES)


def test_where_the_checker_can_not_follow_the_refusal_says_whose_limit_it_is() -> None:
    with pytest.raises(CompileError, match="lower limit than the API server"):
        ADMISSION.compile("[1].map(x, " * 60 + "1" + ")" * 60)
