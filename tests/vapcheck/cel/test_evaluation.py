"""Budgets, lazy variables, and data that no well-meaning user sends."""

import json

import pytest

from vapcheck.cel.environment import Environment
from vapcheck.cel.errors import BudgetExceeded, CompileError, CostExceeded, EvaluationError
from vapcheck.cel.program import BUDGET, PER_CALL_LIMIT, Budget, Program, Scope

ADMISSION = Environment.admission()


def with_variables(**expressions: str) -> tuple[Environment, dict[str, Program]]:
    environment, programs = ADMISSION, {}
    for name, expression in expressions.items():
        programs[name] = environment.compile(expression)
        environment = environment.with_variable(name, programs[name])
    return environment, programs


def test_a_variable_is_computed_once_and_only_when_it_is_read() -> None:
    environment, programs = with_variables(big="object.items.map(i, i)", size="variables.big.size()")
    scope = Scope({"object": {"items": [1] * 100}}).with_variables(programs, Budget())
    assert environment.compile("true").evaluate(scope) is True
    assert scope.budget.remaining == BUDGET
    assert environment.compile("variables.size == 100").evaluate(scope) is True
    after_first = scope.budget.remaining
    assert BUDGET - after_first > 1200  # mapping 100 items
    assert environment.compile("variables.size == 100").evaluate(scope) is True
    assert after_first - scope.budget.remaining < 5


def test_an_error_in_a_variable_shows_where_it_is_read() -> None:
    environment, programs = with_variables(pool="object.metadata.labels.pool", upper="variables.pool + 'x'")
    scope = Scope({"object": {"metadata": {}}}).with_variables(programs)
    assert environment.compile("variables.pool == 'a' || true").evaluate(scope) is True
    with pytest.raises(EvaluationError) as caught:
        environment.compile("variables.upper == 'a'").evaluate(scope)
    assert str(caught.value) == (
        'composited variable "upper" fails to evaluate: '
        'composited variable "pool" fails to evaluate: no such key: labels'
    )


def test_scopes_of_several_policies_share_values_but_not_variables() -> None:
    shared = Scope({"object": {"n": 1}})
    environment, one = with_variables(x="object.n + 1")
    _, other = with_variables(x="object.n + 2")
    program = environment.compile("variables.x")
    first, second = shared.with_variables(one), shared.with_variables(other)
    assert (program.evaluate(first), program.evaluate(second)) == (2, 3)
    assert "variables.x" not in shared.values
    third = first.with_values({"object": {"n": 5}})
    assert (program.evaluate(third), program.evaluate(first)) == (6, 2)


def test_an_expression_over_its_limit_stops_there() -> None:
    program = ADMISSION.compile(
        "object.all(a, object.all(b, object.all(c, object.all(d, a + b + c + d >= 0))))"
    )
    scope = Scope({"object": list(range(100))}, Budget())
    with pytest.raises(CostExceeded, match=r"^operation cancelled: actual cost limit exceeded$"):
        program.evaluate(scope)
    spent = BUDGET - scope.budget.remaining
    assert PER_CALL_LIMIT <= spent < 1.01 * PER_CALL_LIMIT, "of some 10^9 that it would cost"


@pytest.mark.parametrize(
    ("expression", "length"),
    [
        ("size(object.replace('a', object))", 200_000**2),
        ("size(object.replace('', object))", 200_000**2),
        ("size(object.split('').join(object))", 200_000**2),
        ("size(object.split('').map(one, object).join())", 200_000**2),
        ("size(object.replace('a', 'bbb'))", 600_000),
        ("size(object.replace('a', object, 3))", 3 * 200_000 + 199_997),
        ("size(object.replace('a', object, 0))", 200_000),
        ("size(object.replace('aa', 'a'))", 100_000),
        ("size(object.split('').join(', '))", 200_000 + 2 * 199_999),
    ],
)
def test_a_text_that_no_expression_could_read_is_not_made(expression: str, length: int) -> None:
    """The longest would take 40 GB."""
    program, scope = ADMISSION.compile(expression), Scope({"object": "a" * 200_000})
    if length > 10_000_000:
        with pytest.raises(CostExceeded):
            program.evaluate(scope)
    else:
        assert program.evaluate(scope) == length


def test_the_cost_limit_is_not_absorbed() -> None:
    program = ADMISSION.compile("object.all(a, object.all(b, object.all(c, a + b + c >= 0))) || true")
    with pytest.raises(CostExceeded):
        program.evaluate(Scope({"object": list(range(100))}))


def test_the_budget_of_a_policy_runs_out() -> None:
    program = ADMISSION.compile("object.contains('b')")  # costs as the text is long, and is done at once
    scope = Scope({"object": "a" * 5_000_000}, Budget())
    affordable = BUDGET // program.run(scope)[1]
    for _ in range(affordable):
        program.evaluate(scope)
    with pytest.raises(BudgetExceeded, match="running out of cost budget"):
        program.evaluate(scope)
    assert scope.budget.remaining == -1


def test_a_pattern_made_to_explode_does_not() -> None:
    """A matcher that goes back to try again would not end in this world's time."""
    program = ADMISSION.compile("object.matches('^(a+)+$')")
    assert program.evaluate(Scope({"object": "a" * 50_000 + "!"})) is False


def test_json_numbers_beyond_64_bits_are_doubles() -> None:
    scope = Scope({"object": json.loads('{"n": 123456789012345678901234567890, "m": -99999999999999999999}')})
    assert ADMISSION.compile("type(object.n) == double && object.n > 1.0e29 && object.m < 0").evaluate(scope)
    assert ADMISSION.compile("object.n + object.n > 0.0").evaluate(scope) is True


def test_deep_and_large_data_are_errors_at_most() -> None:
    deep: dict = {}
    for _ in range(5000):
        deep = {"a": deep}
    scope = Scope({"object": deep, "oldObject": {"x": "y" * 3_000_000}})
    with pytest.raises(EvaluationError):
        ADMISSION.compile("object == object.a").evaluate(scope)
    assert ADMISSION.compile("oldObject.x.size()").evaluate(scope) == 3_000_000
    with pytest.raises(EvaluationError, match="no such key: nope"):
        ADMISSION.compile("oldObject.x.matches('^y*z') || object.nope").evaluate(scope)


def test_true_and_one_are_different_keys_and_values() -> None:
    scope = Scope({"object": {"yes": True, "one": 1}})
    assert ADMISSION.compile("object.yes == 1 || object.one == true").evaluate(scope) is False
    assert ADMISSION.compile("{dyn(true): 'a', dyn(1): 'b'}[1]").evaluate(scope) == "b"
    assert ADMISSION.compile("{dyn(true): 'a', dyn(1): 'b'}[true]").evaluate(scope) == "a"


def test_values_of_the_scope_are_never_changed() -> None:
    body = {"items": [3, 1, 2], "labels": {"a": "b"}}
    before = json.dumps(body)
    scope = Scope({"object": body})
    for expression in (
        "object.items.sort()",
        "object.items + [4]",
        "object.items.map(i, i + 1)",
        "object.labels.transformMap(k, v, v + 'x')",
        "object.items.reverse()",
    ):
        ADMISSION.compile(expression).evaluate(scope)
    assert json.dumps(body) == before


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("quantity('1') != quantity('1').add(0)", True),
        ("dyn(quantity('1')) != 'a'", True),
        ("[quantity('1')] == [quantity('1').add(0)]", True),
        ("{'a': quantity('1')} != {'a': quantity('1').add(0)}", False),
        ("quantity('1') in [quantity('1').add(0)]", False),
        ("quantity('1').add(0) in [quantity('1')]", True),
        ("dyn(quantity('1')) in [1, 2]", False),
    ],
)
def test_only_a_clear_answer_of_a_comparison_counts(expression: str, value: bool) -> None:
    """A value that won't be compared is an error of `==` alone."""
    assert ADMISSION.compile(expression).evaluate(Scope({})) is value
    with pytest.raises(EvaluationError, match="no such overload"):
        ADMISSION.compile("quantity('1') == quantity('1').add(0)").evaluate(Scope({}))


def test_an_argument_of_format_without_a_type_is_judged_when_it_is_there() -> None:
    program = ADMISSION.compile("'%s and %d'.format(['a', [][9]])")
    with pytest.raises(EvaluationError, match="index out of bounds: 9"):
        program.evaluate(Scope({}))
    for determined in (
        "'%s %d'.format(['a', 'b'])",
        "'%d'.format([[[]][0]])",
        "'%d %d'.format(['a', [][9]])",
    ):
        with pytest.raises(CompileError, match="error during formatting"):
            ADMISSION.compile(determined)
