"""Evaluates one compiled policy on one request with one parameter: what the API server's validator decides.

After `admission/plugin/policy/validating/validator.go`, `plugin/webhook/matchconditions/matcher.go` and
`plugin/cel` of the API server 1.36: order, budgets, messages and what an error leads to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from vapcheck.cel.errors import BudgetExceeded, EvaluationError
from vapcheck.cel.explanation import explain
from vapcheck.cel.program import BUDGET, PER_CALL_LIMIT, Budget, Program, Scope
from vapcheck.policy.compiled_policy import CompiledPolicy, CompiledValidation
from vapcheck.policy.model import Expression

CONDITIONS_BUDGET = 2_500_000
"""CEL cost units of all match conditions, about 10 to the microsecond (apis/cel/config.go)."""
_MAX_MESSAGE_BYTES = 5 * 1024


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """One validation that does not hold, or one error. A validation that holds has none."""

    kind: Literal["violation", "error", "audit-error"]
    message: str
    """The API server's words."""
    expression: Expression | None = None
    reason: str = "Invalid"
    values: Mapping[str, Any] = field(default_factory=dict)
    """Values of the policy's variables that the expression reads, and of the parts that decided."""
    path: str = ""
    """Where in the object the reason is, when it is known."""
    shows_values: bool = False
    """Whether the message is the error of an expression, which shows the value that it is about."""


class Evaluation:
    """The policy, applied to the values of one request and one parameter."""

    def __init__(self, compiled: CompiledPolicy, scope: Scope) -> None:
        self._compiled = compiled
        self._scope = scope
        self.evaluated = 0
        """How many expressions were evaluated."""

    def verdict(self) -> list[PolicyDecision] | None:
        """None if a match condition excludes the request; otherwise the decisions, empty if it passes.

        Errors are decisions too: failurePolicy says what follows.
        """
        condition = self._conditions()
        if condition is False:
            return None
        if isinstance(condition, PolicyDecision):
            return [condition]
        decisions = self._validations()
        return [*decisions, *self._audit_errors()] if self._compiled.audit_annotations else decisions

    def _conditions(self) -> bool | PolicyDecision:
        """Whether all conditions hold; one that is false outweighs errors of the others."""
        compiled = self._compiled
        if not compiled.conditions:
            return True
        # Match conditions may name namespaceObject, but the server passes them no namespace (matcher.go).
        scope = self._scope.with_values({"namespaceObject": None}, budget=Budget(CONDITIONS_BUDGET))
        errors: list[tuple[Expression, str]] = []
        for row, program in compiled.conditions:
            try:
                if self._run(program, scope) is False:
                    return False
            except BudgetExceeded as error:
                return PolicyDecision("error", str(error), row)
            except EvaluationError as error:
                errors.append((row, _failed(row, error)))
        if not errors:
            return True
        texts = list(dict.fromkeys(text for _, text in errors))
        message = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        return PolicyDecision("error", message, errors[0][0], shows_values=True)

    def _validations(self) -> list[PolicyDecision]:
        budget = Budget()
        scope = self._scope.with_variables(self._compiled.variables, budget=budget)
        results: list[PolicyDecision | bool] = []
        for item in self._compiled.validations:
            row = item.validation.expression
            try:
                results.append(self._run(item.program, scope) is True)
            except BudgetExceeded as error:
                return [PolicyDecision("error", str(error), row)]
            except EvaluationError as error:
                path, values = self._explained(item, scope)
                message = _failed(row, error)
                results.append(
                    PolicyDecision("error", message, row, values=values, path=path, shows_values=True)
                )
        if all(result is True for result in results) and budget.remaining >= self._most_for_messages(scope):
            return []  # no message will be read, and none can run out of what is left
        messages, failed = self._messages(budget)
        decisions = []
        for number, (item, result) in enumerate(zip(self._compiled.validations, results, strict=True)):
            row = item.validation.expression
            if isinstance(result, PolicyDecision):
                decisions.append(result)
            elif messages is None:
                decisions.append(
                    PolicyDecision("error", f"failed messageExpression: {BudgetExceeded()}", row)
                )
            elif not result:
                reason = item.validation.reason
                worded = (
                    messages[number] or item.validation.message or f"failed expression: {row.text.strip()}"
                )
                path, values = self._explained(item, scope)
                if item.message and number in failed:
                    values[item.message.expression] = f"({failed[number]})"
                decisions.append(PolicyDecision("violation", worded, row, reason, values, path))
        return decisions

    def _most_for_messages(self, scope: Scope) -> int:
        """What the message expressions can cost after the validations, evaluated in `scope`.

        They compute and pay for the variables that they read again: for those that a validation has computed
        no more than all validations have cost, for the others up to the limit of one expression. A single
        call with megabytes of arguments may exceed that limit before it stops the expression; policies whose
        messages make such calls are not covered.
        """
        assert scope.budget is not None
        spent = BUDGET - scope.budget.remaining
        compiled = self._compiled
        not_computed = sum(name not in scope.values for name in compiled.read_by_messages)
        return spent + (compiled.messages + not_computed) * PER_CALL_LIMIT

    def _messages(self, budget: Budget) -> tuple[list[str] | None, dict[int, str]]:
        """The text of each message expression, empty where it gives none, and the errors of those that fail.

        No texts at all when the budget ran out.
        """
        scope = self._without_authorizer(budget)
        texts: list[str] = []
        failed: dict[int, str] = {}
        for number, item in enumerate(self._compiled.validations):
            text: Any = ""
            if item.message:
                try:
                    text = self._run(item.message, scope)
                except BudgetExceeded:
                    return None, failed
                except EvaluationError as error:
                    failed[number] = str(error)
            texts.append(_usable(text))
        return texts, failed

    def _audit_errors(self) -> list[PolicyDecision]:
        """What is wrong with the audit annotations, whose values go to a log of the server's."""
        wrong: list[PolicyDecision] = []
        # They compile with an authorizer, but the server evaluates them without one (validator.go).
        scope = self._without_authorizer(Budget())
        for row, program in self._compiled.audit_annotations:
            try:
                self._run(program, scope)
            except BudgetExceeded as error:
                return [PolicyDecision("error", str(error), row)]
            except EvaluationError as error:
                wrong.append(PolicyDecision("audit-error", _failed(row, error), row, shows_values=True))
        return wrong

    def _without_authorizer(self, budget: Budget) -> Scope:
        """The request's values without the authorizer; variables are computed anew."""
        values = {
            name: value for name, value in self._scope.values.items() if not name.startswith("authorizer")
        }
        return Scope(values).with_variables(self._compiled.variables, budget=budget)

    def _explained(self, item: CompiledValidation, scope: Scope) -> tuple[str, dict[str, Any]]:
        """Where in the object the reason is, and the values that the reader of a finding wants to see."""
        values: dict[str, Any] = {}
        for name in sorted(item.program.reads):
            if name.startswith("variables."):
                program = self._compiled.variables[name.removeprefix("variables.")]
                try:
                    values[name] = program.evaluate(
                        Scope(scope.values).with_variables(self._compiled.variables)
                    )
                except EvaluationError as error:
                    values[name] = f"({error})"
        explanation = explain(item.program, scope)
        return explanation.path, values | dict(explanation.readings)

    def _run(self, program: Program, scope: Scope) -> Any:
        self.evaluated += 1
        return program.evaluate(scope)


def _failed(row: Expression, error: EvaluationError) -> str:
    return f"expression '{row.text}' resulted in error: {error}"


def _usable(text: Any) -> str:
    """A message the API server would show: neither blank, too long, nor of several lines."""
    if not isinstance(text, str):
        return ""
    text = text.strip()
    return "" if len(text.encode()) > _MAX_MESSAGE_BYTES or "\n" in text else text
