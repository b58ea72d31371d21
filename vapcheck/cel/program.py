"""Compiled expressions, the values that they see, and the cost budgets that they spend.

A Scope holds the values of one object as they are (nothing is converted), so that all programs of all
policies can share it; a policy's `variables` are computed in a scope of their own when they are first read,
as the API server does (apiserver 0.36 pkg/admission/plugin/cel/composition.go). Nothing here compiles.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vapcheck.cel.errors import BudgetExceeded, CelError, CostExceeded, EvaluationError, Halted
from vapcheck.cel.frame import COST, SCOPE, VALUES, Run, new_frame
from vapcheck.cel.parts import deep_stack, roomy
from vapcheck.cel.planner import VARIABLE_PREFIX
from vapcheck.cel.syntax import Tree

PER_CALL_LIMIT = 1_000_000
"""Cost units of one expression (apiserver 0.36 pkg/apis/cel/config.go)."""
BUDGET = 10_000_000
"""Cost units of all expressions of one policy for one request (the same file)."""


Outcome = tuple[Any, int, EvaluationError | None]
"""Value, cost in units, error."""


class Budget:
    """Cost units that the expressions of one policy may still spend on one request."""

    __slots__ = ("remaining",)

    def __init__(self, limit: int = BUDGET) -> None:
        self.remaining = limit

    def spend(self, cost: int) -> None:
        """Take `cost` units. Raises BudgetExceeded when there are not so many left."""
        if cost > self.remaining:
            self.remaining = -1
            raise BudgetExceeded
        self.remaining -= cost


class Scope:
    """The values that expressions see, by name."""

    __slots__ = ("_failed", "_outcomes", "budget", "spent_on_variables", "values", "variables")

    def __init__(self, values: Mapping[str, Any], budget: Budget | None = None) -> None:
        self.values: dict[str, Any] = dict(values)
        self._outcomes: dict[Program, Outcome] = {}
        self.budget = budget
        """None: only the limit of each expression holds."""
        self.spent_on_variables = 0
        """Cost of variables since the last expression was paid for."""
        self.variables: Mapping[str, Program] = {}
        """Programs of the policy's variables, by plain name."""
        self._failed: dict[str, CelError] = {}

    def with_variables(self, variables: Mapping[str, Program], budget: Budget | None = None) -> Scope:
        """The same values with a policy's variables, by plain name; each is computed at most once."""
        scope = Scope(self.values, budget or self.budget)
        scope.variables = variables
        scope._outcomes = self._outcomes
        return scope

    def outcome(self, program: Program) -> Outcome:
        """What `program` gives for these values. One that several policies have is run once, unless it reads
        variables, which are each policy's own.
        """
        if not program.shared:
            return program.run(self)
        found = self._outcomes.get(program)
        if found is None:
            found = self._outcomes[program] = program.run(self)
        return found

    def with_values(self, values: Mapping[str, Any], budget: Budget | None = None) -> Scope:
        """The same values with some more; variables are forgotten, as they might depend on them."""
        kept = {name: value for name, value in self.values.items() if not name.startswith(VARIABLE_PREFIX)}
        scope = Scope(kept | dict(values), budget or self.budget)
        scope.variables = self.variables
        return scope

    def resolve(self, name: str) -> Any:
        """The value of a name that has none yet. Raises CelError: the variable's, or an unknown name."""
        if name in self._failed:
            raise self._failed[name]
        program = self.variables.get(name.removeprefix(VARIABLE_PREFIX)) if "." in name else None
        if program is None:
            raise CelError(f"no such attribute(s): {name}")
        try:
            value, cost, error = self.outcome(program)
        except RecursionError:
            value, cost, error = None, 0, CelError("expression is nested too deeply")
        self.spent_on_variables += cost
        if error is not None:
            short = name.removeprefix(VARIABLE_PREFIX)
            problem = CelError(f'composited variable "{short}" fails to evaluate: {error}')
            self._failed[name] = problem
            raise problem
        self.values[name] = value
        return value


class Program:
    """A compiled expression. It keeps no state of an evaluation and may be shared."""

    __slots__ = ("_frame", "_run", "alone", "expression", "reads", "result_type", "shared", "tree")

    def __init__(
        self, expression: str, result_type: str, reads: frozenset[str], run: Run, slots: int, tree: Tree
    ) -> None:
        self.expression = expression
        self.result_type = result_type
        """A CEL signature: "bool", "list(string)", "dyn", "kubernetes.Quantity"."""
        self.reads = reads
        """The declared names that it reads: "object", "variables.pool"."""
        self.tree = tree
        self.alone = not any(name.startswith(VARIABLE_PREFIX) for name in reads)
        """Whether it reads no variables, which are each policy's own."""
        self.shared = False
        """Whether several policies have it, so that an outcome is worth keeping; only if it is alone."""
        self._run = run
        self._frame = new_frame(slots, PER_CALL_LIMIT)
        """Copied for each evaluation."""

    def run(self, scope: Scope) -> Outcome:
        """Value, cost and error of one evaluation; it spends nothing of the scope's budget."""
        frame = self._frame.copy()
        frame[VALUES] = scope.values
        frame[SCOPE] = scope
        value, error = None, None
        try:
            value = self._run(frame)
        except EvaluationError as problem:
            error = problem
        except RecursionError:
            if self.tree.deep and not roomy():
                with deep_stack():
                    return self.run(scope)
            error = CelError("expression is nested too deeply")
        if frame[COST] > PER_CALL_LIMIT and not isinstance(error, Halted):
            return None, frame[COST], CostExceeded()
        return value, frame[COST], error

    def evaluate(self, scope: Scope) -> Any:
        """The value, paid for from the scope's budget together with the variables that had to be computed.

        Raises EvaluationError: CostExceeded beyond the limit of one expression, BudgetExceeded beyond the
        budget, CelError where it failed.
        """
        value, cost, error = scope.outcome(self) if self.shared else self.run(scope)
        budget = scope.budget
        if budget is not None:
            spent, scope.spent_on_variables = scope.spent_on_variables, 0
            budget.spend(spent)
            budget.spend(cost)
        if error is not None:
            raise error
        return value

    def __repr__(self) -> str:
        return f"Program({self.expression!r})"
