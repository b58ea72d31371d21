"""A policy with all its expressions compiled, or everything that the API server would refuse in it.

It must not evaluate anything: see `evaluation`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from policies.engine.cel import CompileError, Environment, Program
from policies.engine.policy import Expression, Policy, Validation

_MAX_AUDIT_ANNOTATIONS = 20
_MAX_AUDIT_EXPRESSION_BYTES = 5 * 1024


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


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an expression does not compile."""

    path: str
    expression: str
    message: str


def compile_policy(policy: Policy) -> CompiledPolicy | list[Refusal]:
    """The policy ready for evaluation; or why not, every refusal at once.

    Match conditions see no variables, message expressions no authorizer: as the API server compiles them.
    """
    compiler = _Compiler()
    plain = Environment.admission(params=policy.param_kind is not None, authorizer=True)
    composed, unauthorized = (
        plain,
        Environment.admission(params=policy.param_kind is not None, authorizer=False),
    )
    conditions = [(row, compiler.compile(plain, row, ("bool",))) for row in policy.conditions]
    variables: dict[str, Program] = {}
    for row in policy.variables:
        program = compiler.compile(composed, row, ())
        if program is None:
            return compiler.refusals  # whatever reads it would be refused for that reason alone
        variables[row.name] = program
        composed = composed.with_variable(row.name, program)
        unauthorized = unauthorized.with_variable(row.name, program)
    validations = []
    for validation in policy.validations:
        program = compiler.compile(composed, validation.expression, ("bool",))
        message = None
        if validation.message_expression:
            message = compiler.compile(unauthorized, validation.message_expression, ("string",))
        if program:
            validations.append(CompiledValidation(validation, program, message))
    audits = [(row, compiler.compile(composed, row, ("string", "null_type"))) for row in policy.audit_annotations]
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
    )


class _Compiler:
    def __init__(self) -> None:
        self.refusals: list[Refusal] = []

    def refuse(self, row: Expression, message: str) -> None:
        self.refusals.append(Refusal(row.path, row.text, message))

    def compile(self, environment: Environment, row: Expression, expects: Collection[str]) -> Program | None:
        try:
            return environment.compile(row.text, expects)
        except CompileError as error:
            where = f" at {error.line}:{error.column} of the expression" if error.line else ""
            self.refuse(row, f"does not compile{where}: {error.message}")
            return None
