"""Compiling expressions against declared names, with the refusals of the API server.

cel-expr-python parses and checks; what Kubernetes adds (homogeneous literals, literals that can't
be converted, limits of size) is judged on the checked tree. Nothing here evaluates an expression on data.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from contextlib import nullcontext
from functools import lru_cache
from typing import Any

from cel_expr_python import cel

from vapcheck.cel import refusals, validators
from vapcheck.cel.checked_expression import read_tree
from vapcheck.cel.declarations import PRIMITIVE_TYPES, checker_type, configuration, number_orders
from vapcheck.cel.dispatch import split_type
from vapcheck.cel.errors import CompileError
from vapcheck.cel.libraries import ALL
from vapcheck.cel.message_types import ADMISSION, Types, pool
from vapcheck.cel.parts import deep_stack, tree_of_parts
from vapcheck.cel.planner import VARIABLE_PREFIX, PlanError, Planner
from vapcheck.cel.program import Program
from vapcheck.cel.syntax import Identifier, Node, Tree
from vapcheck.cel.tokens import tokens

MAX_EXPRESSION = 100_000
"""Code points of an expression (cel-go's parser limit, kept by the checker too)."""
_TWO_VARIABLES = re.compile(r"\.(exists_one)(?=\s*\(\s*[A-Za-z_]\w*\s*,\s*[A-Za-z_]\w*\s*,)")
"""exists_one with two variables, which the checker knows by its other name only."""
_HAS_VARIABLE = re.compile(r"\bhas\(\s*(variables\.[A-Za-z_]\w*)\s*\)")
REQUEST = {"namespaceObject": "kubernetes.Namespace", "request": "kubernetes.AdmissionRequest"}
AUTHORIZER = {
    "authorizer": "kubernetes.authorization.Authorizer",
    "authorizer.requestResource": "kubernetes.authorization.ResourceCheck",
}
"""Names of an admission policy that have the same types in all policies."""


@lru_cache(maxsize=1)
def _admission_pool() -> Any:
    return pool(ADMISSION)


class Environment:
    """Names that expressions may use, with their types."""

    def __init__(self, variables: Mapping[str, str], types: Types | None = None, minor: str = ALL) -> None:
        """Names, perhaps dotted, with their CEL signatures.

        `types`: fields of the types that signatures name, beside those of `request` and `namespaceObject`.
        `minor`: the Kubernetes whose functions there are for new expressions; by default every one that is
        known.
        """
        self._variables = dict(variables)
        self._types = types
        self._minor = minor
        self._pool = _admission_pool() if types is None else pool({**ADMISSION, **types})
        self._checkers: dict[bool, Any] = {}

    @classmethod
    def admission(cls, *, params: bool = False, authorizer: bool = True, minor: str = ALL) -> Environment:
        """What a ValidatingAdmissionPolicy sees; `params` where it has a paramKind."""
        variables = {"object": "dyn", "oldObject": "dyn", **REQUEST}
        if params:
            variables["params"] = "dyn"
        if authorizer:
            variables |= AUTHORIZER
        return cls(variables, minor=minor)

    def with_variable(self, name: str, program: Program) -> Environment:
        """The same environment with `variables.<name>`, of the type of its program."""
        environment = Environment.__new__(Environment)
        environment._variables = self._variables | {
            f"{VARIABLE_PREFIX}{name}": kept_type(program.result_type)
        }
        environment._types, environment._pool, environment._checkers = self._types, self._pool, {}
        environment._minor = self._minor
        return environment

    def compile(self, expression: str, expects: Collection[str] = ()) -> Program:
        """The program of an expression. Raises CompileError when the API server would refuse it.

        `expects`: the types that its result may have; without it any. "dyn" is accepted only where it is
        named: for the API server a validation must be ("bool",).
        """
        tree = self._check(expression)
        with deep_stack() if tree.deep else nullcontext():
            return self._program(expression, tree, expects)

    def _program(self, expression: str, tree: Tree, expects: Collection[str]) -> Program:
        problem = validators.problem(tree)
        if problem is not None:
            raise self._refusal(problem[0], tree, problem[1], expression)
        result_type = tree.types.get(tree.root.id, "dyn")
        if expects and result_type not in expects:
            wanted = next(iter(expects)) if len(expects) == 1 else f"one of [{' '.join(expects)}]"
            raise CompileError(f"must evaluate to {wanted} but got {result_type}")
        planner = Planner(tree)
        try:
            run = planner.plan(tree.root).run
        except PlanError as error:
            place = self._refusal("", tree, error.node, expression)
            text = f"program instantiation failed: {error}"
            raise CompileError(text, place.line, place.column) from None
        except RecursionError:
            raise CompileError("expression is nested too deeply") from None
        reads = frozenset(
            node.name for node in tree.walk() if isinstance(node, Identifier) and node.name in self._variables
        )
        return Program(expression, result_type, reads, run, planner.size, tree)

    def _check(self, expression: str) -> Tree:
        if len(expression) > MAX_EXPRESSION:
            raise CompileError(
                f"expression code point size exceeds limit: size: {len(expression)}, limit {MAX_EXPRESSION}"
            )
        try:
            expression.encode()
        except UnicodeEncodeError as error:
            raise CompileError(f"not valid Unicode at position {error.start}", 1, error.start + 1) from None
        # Quoted field names, which cel-go of Kubernetes doesn't know.
        for token in tokens(expression) if "`" in expression else ():
            if token.text == "`":
                raise refusals.refusal("unsupported syntax: '`'", expression, token.start)
        text = expression
        try:
            if "has(" in expression and VARIABLE_PREFIX in expression:
                expression = _HAS_VARIABLE.sub(self._presence, expression)
            text = (
                _TWO_VARIABLES.sub(".existsOne ", expression) if ".exists_one" in expression else expression
            )
            return read_tree(self._checker(".sortBy" in text).compile(text).serialize())
        except RecursionError:
            raise CompileError("expression is nested too deeply") from None
        except (RuntimeError, ValueError) as error:
            tree = tree_of_parts(text, str(error), self._check_part)
            if tree is None:
                raise refusals.reworded(str(error), text) from None
            return tree

    def _check_part(self, text: str, names: Mapping[str, str]) -> Tree:
        """The tree of a part of an expression, in which `names` stand for other parts."""
        messages = {*ADMISSION, *(self._types or ())}
        types = {name: checker_type(signature, messages) for name, signature in names.items()}
        return read_tree(self._new_checker(".sortBy" in text, types).compile(text).serialize())

    def _checker(self, sorting: bool) -> Any:
        if sorting not in self._checkers:
            self._checkers[sorting] = self._new_checker(sorting, {})
        return self._checkers[sorting]

    def _new_checker(self, sorting: bool, more: dict[str, Any]) -> Any:
        return cel.NewEnv(
            descriptor_pool=self._pool,
            config=configuration(sorting, self._minor),
            variables={name: self._type(signature) for name, signature in self._variables.items()} | more,
            extensions=[number_orders()],
        )

    def _presence(self, match: re.Match[str]) -> str:
        """has(variables.x), which the checker misreads: true, or the variable's error."""
        name = match[1]
        return f"({name} == {name} ? true : true)" if name in self._variables else match[0]

    def _type(self, signature: str) -> Any:
        if signature in ADMISSION or (self._types and signature in self._types):
            return cel.Type(signature)
        return checker_type(signature)

    @staticmethod
    def _refusal(text: str, tree: Tree, node: Node, expression: str) -> CompileError:
        return refusals.refusal(text, expression, tree.positions().get(node.id, 0))


def kept_type(signature: str, also: Collection[str] = ()) -> str:
    """The type of a policy's variable: the API server keeps plain types, and lists and maps of them; all
    else, optionals in a list too, is dyn (convertCelTypeToDeclType of plugin/cel/composition.go, 1.36).
    `also`: other types to keep."""
    name, parameters = split_type(signature)
    if (name, len(parameters)) in (("list", 1), ("map", 2)):
        return f"{name}({', '.join(kept_type(each, also) for each in parameters)})"
    return signature if signature in PRIMITIVE_TYPES or signature in also else "dyn"
