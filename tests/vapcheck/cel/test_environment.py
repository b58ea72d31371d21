"""What is refused before anything is evaluated, and with which place."""

import pytest

from vapcheck.cel.environment import Environment
from vapcheck.cel.errors import CompileError
from vapcheck.cel.program import Scope

ADMISSION = Environment.admission(params=True)


@pytest.mark.parametrize(
    ("expression", "line", "column", "text"),
    [
        ("request.nme == 'x'", 1, 8, "undefined field 'nme'"),
        ("true &&\n  request.userInfo.grups.size() > 0", 2, 19, "undefined field 'grups'"),
        ("namespaceObject.metadata.lables", 1, 25, "undefined field 'lables'"),
        ("foo", 1, 1, "undeclared reference to 'foo'"),
        ("variables.pool", 1, 10, "undefined field 'pool'"),
        ("object.a(", 1, 10, "Syntax error"),
        ("[1,\n 'a']", 2, 2, "expected type 'int' but found 'string'"),
        ("{'a': 1, 'b': 'x'}", 1, 15, "expected type 'int' but found 'string'"),
        ("duration('1d')", 1, 10, "invalid duration argument"),
        ("timestamp('yesterday')", 1, 11, "invalid timestamp argument"),
        ("'a'.matches('(')", 1, 13, "invalid matches argument"),
        ("object.`a-b`", 1, 8, "unsupported syntax: '`'"),
        ("int('x') == 1", 1, 4, "type conversion error from 'string' to 'int'"),
        ("object.name.find('(')", 1, 17, "missing closing )"),
    ],
)
def test_refusals_have_their_place(expression: str, line: int, column: int, text: str) -> None:
    with pytest.raises(CompileError) as caught:
        ADMISSION.compile(expression)
    assert text in caught.value.message
    assert (caught.value.line, caught.value.column) == (line, column)


@pytest.mark.parametrize(
    "expression",
    [
        "cel.bind(x, 1, x)",
        "math.greatest(1, 2)",
        "base64.encode(b'a')",
        "'a'.reverse()",
        "regex.replace('a', 'b', 'c')",
        "proto.hasExt(object, x)",
        "jsonpatch.escapeKey('a')",
        "Object{}",
    ],
)
def test_functions_that_kubernetes_lacks_are_unknown(expression: str) -> None:
    with pytest.raises(CompileError):
        ADMISSION.compile(expression)


def test_a_backquote_inside_a_string_or_a_comment_is_text() -> None:
    for expression in ("'`'", '"`"', r"r'\`'", "'''a`b'''", "1 // `", r"'\'`'", 'b"`"'):
        ADMISSION.compile(expression)


def test_names_are_there_only_where_the_policy_has_them() -> None:
    with pytest.raises(CompileError, match="params"):
        Environment.admission().compile("params.x")
    with pytest.raises(CompileError, match="authorizer"):
        Environment.admission(authorizer=False).compile("authorizer.group('')")
    Environment.admission().compile("authorizer.requestResource.check('get').allowed()")


def test_result_types_must_be_the_expected_ones() -> None:
    with pytest.raises(CompileError, match=r"^must evaluate to bool but got int$"):
        ADMISSION.compile("1", expects=("bool",))
    with pytest.raises(CompileError, match=r"^must evaluate to bool but got dyn$"):
        ADMISSION.compile("object.spec.enabled", expects=("bool",))
    with pytest.raises(CompileError, match=r"^must evaluate to one of \[string null_type\] but got int$"):
        ADMISSION.compile("1", expects=("string", "null_type"))
    assert ADMISSION.compile("null", expects=("string", "null_type")).result_type == "null_type"


def test_variables_have_the_type_of_their_expression() -> None:
    names = ADMISSION.compile("object.spec.containers.map(c, string(c.name))")
    environment = ADMISSION.with_variable("names", names)
    assert names.result_type == "list(string)"
    with pytest.raises(CompileError, match="no matching overload"):
        environment.compile("variables.names[0] + 1")
    with pytest.raises(CompileError, match="undefined field 'nmes'"):
        environment.compile("variables.nmes")
    program = environment.compile("variables.names.size() > request.name.size() || has(oldObject.x)")
    assert program.reads == {"variables.names", "request", "oldObject"}


def test_an_opaque_variable_is_dynamic_as_for_the_api_server() -> None:
    environment = ADMISSION.with_variable("limit", ADMISSION.compile("quantity('1Gi')"))
    program = environment.compile("variables.limit.isLessThan(quantity('2Gi')) && variables.limit != null")
    scope = Scope({}).with_variables({"limit": ADMISSION.compile("quantity('1Gi')")})
    assert environment.compile("variables.limit.isLessThan(quantity('2Gi'))").evaluate(scope) is True
    assert program.result_type == "bool"


def test_types_of_ones_own_find_misspelt_fields() -> None:
    types = {
        "k8s.Pod": {"spec": "k8s.PodSpec"},
        "k8s.PodSpec": {"hostNetwork": "bool", "containers": "list(dyn)"},
    }
    environment = Environment({"object": "k8s.Pod"}, types)
    environment.compile("object.spec.hostNetwork && object.spec.containers.all(c, c.anything)")
    with pytest.raises(CompileError, match="undefined field 'hostNetwrk'"):
        environment.compile("object.spec.hostNetwrk")


@pytest.mark.parametrize(
    "expression",
    [
        "",
        " ",
        "(" * 5000,
        "1" + "+1" * 60_000,
        "a" * 200_000,
        "\ud800",
        "'\\ud800'",
        "[" * 300 + "]" * 300,
        "\0",
    ],
)
def test_expressions_beyond_the_limits_are_refused(expression: str) -> None:
    with pytest.raises(CompileError):
        ADMISSION.compile(expression)


def test_an_operand_without_a_type_has_that_of_the_first_overload_as_for_the_api_server() -> None:
    assert ADMISSION.compile("[].map(x, x * x)").result_type == "list(double)"
    assert ADMISSION.compile("[].map(x, x + x)").result_type == "list(bytes)"
    assert ADMISSION.compile("object.a * 2").result_type == "int"
    with pytest.raises(CompileError, match=r"'add' applied to 'kubernetes.Quantity.\(double\)'"):
        ADMISSION.compile("quantity('1Gi').add([].map(x, x * x).sum())")


@pytest.mark.parametrize(
    ("variable", "kept"),
    [
        ("[1].map(x, object.?a)", "list(dyn)"),
        ("[[object.?a]]", "list(list(dyn))"),
        ("{'a': object.?a}", "map(string, dyn)"),
        ("[1].map(x, type(x))", "list(dyn)"),
        ("['a']", "list(string)"),
        ("quantity('1')", "dyn"),
    ],
)
def test_types_that_variables_have_for_their_readers(variable: str, kept: str) -> None:
    environment = ADMISSION.with_variable("it", ADMISSION.compile(variable))
    assert environment.compile("variables.it").result_type == kept
