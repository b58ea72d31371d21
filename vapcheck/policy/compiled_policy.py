"""A policy with all its expressions compiled, or everything that the API server would refuse in it.

Nothing here evaluates: see `vapcheck.judging.evaluation`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from vapcheck.cel.environment import Environment
from vapcheck.cel.errors import CompileError
from vapcheck.cel.planner import VARIABLE_PREFIX
from vapcheck.cel.program import Program
from vapcheck.policy import unseen_variables
from vapcheck.policy.model import Expression, Policy, Validation
from vapcheck.server.minors import MINORS, NEWEST

_MAX_AUDIT_ANNOTATIONS = 20
_MAX_AUDIT_EXPRESSION_BYTES = 5 * 1024
_ENVIRONMENTS = 16
"""How many are kept, since each takes some 0.5 MiB. Mostly it is policies compiled one after the other that
share one."""


@dataclass(frozen=True, slots=True)
class CompiledValidation:
    """One validation ready to be evaluated."""

    validation: Validation
    program: Program
    message: Program | None


@dataclass(frozen=True, slots=True)
class CompiledPolicy:
    """One policy ready to be evaluated."""

    policy: Policy
    conditions: tuple[tuple[Expression, Program], ...]
    variables: dict[str, Program]
    """In the order of the policy; each may read those before it."""
    validations: tuple[CompiledValidation, ...]
    audit_annotations: tuple[tuple[Expression, Program], ...]
    messages: int
    """How many validations build their message with an expression."""
    read_by_messages: frozenset[str]
    """Variables that those expressions read, directly or through other variables, as "variables.pool"."""

    @property
    def reads_namespace(self) -> bool:
        """Whether any expression reads namespaceObject; match conditions are given none by the server."""
        programs = [
            *self.variables.values(),
            *(program for item in self.validations for program in (item.program, item.message) if program),
            *(program for _, program in self.audit_annotations),
        ]
        return any("namespaceObject" in program.reads for program in programs)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an expression does not compile."""

    path: str
    expression: str
    message: str
    remediation: str = ""
    """What to do, where the message does not say it."""


class Compiler:
    """Compiles policies. An expression that several policies have is compiled once and, if it reads no
    variables, evaluated once for each request (`Program.shared`)."""

    def __init__(self) -> None:
        self._environments: dict[_Visible, Environment] = {}
        self._programs: dict[tuple[_Visible, str, tuple[str, ...]], Program | CompileError] = {}

    def compile(self, policy: Policy, minor: str = NEWEST) -> CompiledPolicy | list[Refusal]:
        """The policy ready for evaluation, or every reason why a cluster of that minor refuses it.

        As in the API server, match conditions see no variables, and message expressions no authorizer.
        """
        compiler = _PolicyCompiler(policy, self)
        plain = _Visible(params=policy.param_kind is not None, authorizer=True, minor=minor)
        composed, unauthorized = plain, replace(plain, authorizer=False)
        conditions = [(row, compiler.compile(plain, row, ("bool",))) for row in policy.conditions]
        variables: dict[str, Program] = {}
        for row in policy.variables:
            program = compiler.compile(composed, row, ())
            if program is None:
                return compiler.refusals  # every expression that reads it would be refused for that reason
            variables[row.name] = program
            composed = composed.having(row.name, program)
            unauthorized = unauthorized.having(row.name, program)
        validations = []
        for validation in policy.validations:
            program = compiler.compile(composed, validation.expression, ("bool",))
            message = None
            if validation.message_expression:
                message = compiler.compile(unauthorized, validation.message_expression, ("string",))
            if program:
                validations.append(CompiledValidation(validation, program, message))
        audits = [
            (row, compiler.compile(composed, row, ("string", "null_type")))
            for row in policy.audit_annotations
        ]
        if len(audits) > _MAX_AUDIT_ANNOTATIONS:
            compiler.refuse(audits[-1][0], f"at most {_MAX_AUDIT_ANNOTATIONS} audit annotations are allowed")
        for row, _ in audits:
            if len(row.text.strip().encode()) > _MAX_AUDIT_EXPRESSION_BYTES:
                compiler.refuse(row, f"must not exceed {_MAX_AUDIT_EXPRESSION_BYTES} bytes")
        if compiler.refusals:
            return compiler.refusals
        return CompiledPolicy(
            policy,
            conditions=tuple((row, program) for row, program in conditions if program),
            variables=variables,
            validations=tuple(validations),
            audit_annotations=tuple((row, program) for row, program in audits if program),
            messages=sum(item.message is not None for item in validations),
            read_by_messages=_variables_read(
                variables, [item.message for item in validations if item.message]
            ),
        )

    def program(self, scope: _Visible, text: str, expects: tuple[str, ...]) -> Program:
        """The program of an expression. Raises CompileError."""
        key = (scope, text, expects)
        found = self._programs.get(key)
        if found is None:
            try:
                found = self._environment(scope).compile(text, expects)
            except CompileError as error:
                found = error
            self._programs[key] = found
        elif isinstance(found, Program):  # this is its second use
            found.shared = found.alone
        if isinstance(found, CompileError):
            raise found
        return found

    def _environment(self, scope: _Visible) -> Environment:
        environment = self._environments.get(scope)
        if environment is None:
            if scope.variables:
                *rest, (name, program) = scope.variables
                environment = self._environment(replace(scope, variables=tuple(rest))).with_variable(
                    name, program
                )
            else:
                environment = Environment.admission(
                    params=scope.params, authorizer=scope.authorizer, minor=scope.minor
                )
            if len(self._environments) >= _ENVIRONMENTS:
                self._environments.clear()
            self._environments[scope] = environment
        return environment


def _variables_read(variables: dict[str, Program], programs: Iterable[Program]) -> frozenset[str]:
    """The variables that `programs` read, directly or through others; `variables` in the policy's order."""
    read = {name for program in programs for name in program.reads}
    for name, program in reversed(variables.items()):
        if f"{VARIABLE_PREFIX}{name}" in read:
            read |= program.reads
    return frozenset(name for name in read if name.startswith(VARIABLE_PREFIX))


@dataclass(frozen=True, slots=True)
class _Visible:
    """What an expression can see besides the object; for each there is one environment. Programs are compared
    by identity."""

    params: bool
    authorizer: bool
    minor: str
    variables: tuple[tuple[str, Program], ...] = ()

    def having(self, name: str, program: Program) -> _Visible:
        """This, and one more variable."""
        return replace(self, variables=(*self.variables, (name, program)))


class _PolicyCompiler:
    """Compiles the expressions of one policy and collects the refusals."""

    def __init__(self, policy: Policy, shared: Compiler) -> None:
        self._policy, self._shared = policy, shared
        self.refusals: list[Refusal] = []

    def refuse(self, row: Expression, message: str, first: str | None = None) -> None:
        """Note that `row` is refused; `first` is the first minor that accepts it, if this one is too old."""
        fix = unseen_variables.advice(self._policy, row, message)
        if first:
            fix = (
                f"Kubernetes {first} and newer support it; write it without the features that this "
                "cluster lacks."
            )
        self.refusals.append(Refusal(row.path, row.text, message, fix))

    def compile(self, scope: _Visible, row: Expression, expects: tuple[str, ...]) -> Program | None:
        try:
            return self._shared.program(scope, row.text, expects)
        except CompileError as error:
            where = f" at {error.line}:{error.column} of the expression" if error.line else ""
            message = f"does not compile{where}: {error.message}"
            self.refuse(row, message, self._first_that_accepts(scope, row, expects))
            return None

    def _first_that_accepts(self, scope: _Visible, row: Expression, expects: tuple[str, ...]) -> str | None:
        """The first minor after this one in which the expression compiles."""
        for minor in MINORS[MINORS.index(scope.minor) + 1 :]:
            with contextlib.suppress(CompileError):
                self._shared.program(replace(scope, minor=minor), row.text, expects)
                return minor
        return None
