"""Our evaluation against cel-cpp's, on generated expressions that both know; and nothing makes it crash."""

import math
from typing import Any

from cel_expr_python import cel
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from vapcheck.cel.environment import Environment
from vapcheck.cel.errors import CompileError, EvaluationError
from vapcheck.cel.explanation import explain
from vapcheck.cel.program import Scope
from vapcheck.cel.times import SECOND, duration_text, parse_duration, parse_timestamp, timestamp_text
from vapcheck.cel.values import Duration, Timestamp, Uint
from vapcheck.go_text import double_f, double_g

DATA: dict[str, Any] = {
    "name": "web",
    "empty": "",
    "n": 3,
    "ratio": 0.5,
    "on": True,
    "nothing": None,
    "list": [3, 1, 2],
    "names": ["a", "bb", "c"],
    "labels": {"app": "web", "tier": "gold"},
    "items": [{"name": "a", "size": 1}, {"name": "b"}, {"name": "c", "size": 7}],
}
OURS = Environment({"object": "dyn"})
THEIRS = cel.NewEnv(
    config=cel.NewEnvConfigFromYaml(
        "extensions: [{name: optional}, {name: strings, version: 2}, {name: sets}]"
    ),
    variables={"object": cel.Type.DYN},
)
ACTIVATION = THEIRS.Activation({"object": DATA})

_strings = st.sampled_from(
    ["'a'", "''", "'web'", "'é☃'", "object.name", "object.empty", "object.items[0].name"]
)
_numbers = st.sampled_from(["0", "1", "-2", "7", "object.n", "object.list[1]", "object.items[2].size"])
_dynamic = st.sampled_from(["object.nothing", "object.missing", "object.ratio", "object.on", "object.labels"])
_lists = st.sampled_from(["[]", "[1, 2]", "object.list", "object.names", "object.items", "object.missing"])


NO_KEY = "type(c) == map && (type(e) == null_type || type(e) == list || type(e) == map)"
"""What can't be a map's key: cel-cpp refuses to look for it; for cel-go, which the API server has, a map
lacks such keys (common/types/map.go, stringIfaceMapAccessor)."""


def _not_map(expression: str) -> str:
    """A map gives its keys in an order that CEL leaves open: cel-cpp has another one than ours."""
    return f"(type(dyn({expression})) == map ? dyn([]) : dyn({expression}))"


def _combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pair = st.tuples(inner, inner)
    return st.one_of(
        pair.map(lambda p: f"({p[0]} + {p[1]})"),
        pair.map(lambda p: f"({p[0]} == {p[1]})"),
        pair.map(lambda p: f"({p[0]} < {p[1]})"),
        pair.map(lambda p: f"(dyn({p[0]}) && dyn({p[1]}))"),
        pair.map(lambda p: f"(dyn({p[0]}) || dyn({p[1]}))"),
        pair.map(lambda p: f"[dyn({p[0]})].exists(e, [dyn({p[1]})].exists(c, !({NO_KEY}) && e in c))"),
        st.tuples(inner, inner, inner).map(lambda p: f"(dyn({p[0]}) ? dyn({p[1]}) : dyn({p[2]}))"),
        inner.map(lambda e: f"size(dyn({e}))"),
        inner.map(lambda e: f"!dyn({e})"),
        inner.map(lambda e: f"dyn({e}).exists(x, x == 'a' || x == 1)"),
        inner.map(lambda e: f"object.items.all(x, has(x.size) && x.size != {e})"),
        inner.map(lambda e: f"{_not_map(e)}.map(x, dyn(x) + 1)"),
        inner.map(lambda e: f"{_not_map(e)}.filter(x, x != 'a')"),
        inner.map(lambda e: f"dyn({e}).exists_one(x, x == 1)"),
        pair.map(lambda p: f"dyn({p[0]}).startsWith(string(dyn({p[1]})))"),
        inner.map(lambda e: f"dyn({e})[0]"),
        inner.map(lambda e: f"object.labels[string(dyn({e}))]"),
        pair.map(lambda p: f"optional.of({p[0]}).orValue({p[1]})"),
    )


EXPRESSIONS = st.recursive(st.one_of(_strings, _numbers, _dynamic, _lists), _combined, max_leaves=8)


def _theirs(expression: str) -> tuple[str, Any]:
    value = THEIRS.compile(expression).eval(ACTIVATION)
    return ("error", None) if value.type() == cel.Type.ERROR else ("value", value.plain_value())


@examples("policy engine", 400)
@given(EXPRESSIONS)
def test_cel_cpp_finds_the_same(expression: str) -> None:
    try:
        program = OURS.compile(expression)
    except CompileError:
        return  # stricter than cel-cpp: mixed literals
    wanted, value = _theirs(expression)
    try:
        found: tuple[str, Any] = ("value", program.evaluate(Scope({"object": DATA})))
    except EvaluationError:
        found = ("error", None)
    assert found[0] == wanted
    if wanted == "value":
        assert found[1] == value
        assert type(found[1]) is type(value)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
ADMISSION = Environment.admission()


@examples("policy engine", 300)
@given(
    st.text(max_size=40)
    | st.text(alphabet="object.[](){}?:+-*/%!<>=&|'\"0123456789aex,in\\ `\n", max_size=60)
)
def test_no_text_crashes_the_compiler(text: str) -> None:
    refusal = CompileError("")
    try:
        ADMISSION.compile(text)
    except CompileError as error:
        refusal = error
    assert refusal.line >= 1
    assert refusal.column >= 1


_PROGRAMS = [
    ADMISSION.compile(text)
    for text in (
        "object.all(x, x == object)",
        "object.map(x, x + x)",
        "object + object == object",
        "'%s %s'.format([object, oldObject])",
        "object.?a.orValue(object) == oldObject",
        "string(object).matches(string(oldObject))",
        "object < oldObject || object >= oldObject",
        "object[oldObject]",
        "quantity(object).add(oldObject).isGreaterThan(quantity(oldObject))",
        "object.sum() == oldObject.max()",
        "{object: oldObject}[object] == oldObject",
        "int(object) / int(oldObject) % 3 == -object",
        "timestamp(object) - timestamp(oldObject) < duration(object)",
        "object.sort().distinct().join(oldObject)",
        "object.replace(oldObject, object).substring(1, 3)",
    )
]


@examples("policy engine", 300)
@given(_json, _json, st.sampled_from(_PROGRAMS))
def test_no_data_crashes_the_evaluation(one: Any, other: Any, program: Any) -> None:
    scope = Scope({"object": one, "oldObject": other})
    _, cost, problem = program.run(scope)
    assert cost >= 0
    assert problem is None or str(problem)
    explain(program, scope)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_printed_doubles_read_back(value: float) -> None:
    assert float(double_g(value)) == value
    assert float(double_f(value)) == value
    assert math.copysign(1, float(double_g(value))) == math.copysign(1, value)
    assert "e" not in double_f(value)


@given(st.integers(-(2**62), 2**62).map(lambda n: n - n % 1000))
def test_printed_durations_read_back(nanoseconds: int) -> None:
    found = parse_duration(duration_text(Duration(nanoseconds)))
    assert found is not None
    assert (
        abs(found.nanoseconds - nanoseconds) <= 1 + abs(nanoseconds) * 2**-50
    )  # seconds are printed as a double


@given(st.integers(-62135596800 * SECOND, 253402300799 * SECOND), st.integers(-14 * 60, 14 * 60))
def test_printed_times_read_back(nanoseconds: int, minutes: int) -> None:
    if not -62135500000 < nanoseconds // SECOND < 253402200000:
        minutes = 0  # near the edges the zone's own clock leaves the calendar
    assert parse_timestamp(timestamp_text(Timestamp(nanoseconds, minutes * 60))) == Timestamp(nanoseconds)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1), st.sampled_from("+-*/%"))
def test_integer_arithmetic_is_exact_or_an_error(left: int, right: int, sign: str) -> None:
    program = ADMISSION.compile(f"object {sign} oldObject")
    found, _, problem = program.run(Scope({"object": left, "oldObject": right}))
    if problem is not None:
        by_zero = {"/": "division by zero", "%": "modulus by zero"}
        assert str(problem) == (by_zero[sign] if right == 0 and sign in by_zero else "integer overflow")
        return
    quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1) if right else 0
    wanted = {
        "+": left + right,
        "-": left - right,
        "*": left * right,
        "/": quotient,
        "%": left - right * quotient,
    }
    assert found == wanted[sign]
    assert -(2**63) <= found < 2**63


@given(st.integers(0, 2**64 - 1), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False))
def test_numbers_of_all_kinds_have_one_order(unsigned: int, signed: int, double: float) -> None:
    scope = Scope({"object": {"u": Uint(unsigned), "i": signed, "d": double}})
    assert ADMISSION.compile("object.u < object.i").evaluate(scope) == (unsigned < signed)
    assert ADMISSION.compile("object.i >= object.u").evaluate(scope) == (signed >= unsigned)
    assert ADMISSION.compile("object.d < object.i").evaluate(scope) == (double < float(signed))
    assert ADMISSION.compile("(object.d == object.u) == (object.u == object.d)").evaluate(scope)
