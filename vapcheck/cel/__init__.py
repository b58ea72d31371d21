"""CEL as Kubernetes has it: cel-expr-python checks, Python evaluates, as the API server would.

It handles expressions and values only. Its callers handle policies and objects.

    Environment(variables, types=)               names (may be dotted) -> CEL signature ("dyn", "list(int)");
                                                 types: {"k8s.Pod": {"spec": "k8s.PodSpec"}} for typed names
    Environment.admission(params=, authorizer=)  what a ValidatingAdmissionPolicy sees: object, oldObject,
                                                 request and namespaceObject (typed), params, authorizer and
                                                 authorizer.requestResource
    .with_variable(name, program)                `variables.<name>`, typed by its program
    .compile(expression, expects=())             -> Program; raises CompileError
    Program                                      .expression .result_type .reads (declared names, dotted)
    .evaluate(scope)                             -> Python value; EvaluationError
    .run(scope)                                  -> value, cost, error; spends nothing
    Scope(values, budget=Budget())               values of one object: name -> JSON value, used as they are
    .with_variables({name: Program}, budget=)    the same with a policy's lazy, memoised `variables.<name>`
    .with_values({...})                          the same with some more (params of one binding)
    Budget(limit)                                cost units left for all expressions of a policy and request
    explain(program, scope)                      why the result is what it is: path in the object, values

Values: null, bool, int, float, str, bytes, list or tuple, and dict stand for themselves; the others are in
values.py (Uint, Duration, Timestamp, Optional, TypeValue) or the libraries' own frozen dataclasses.
Names are imported at first use, since compiling CEL needs libraries that reading a quantity does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vapcheck.first_use import first_use

if TYPE_CHECKING:
    from vapcheck.cel.environment import Environment
    from vapcheck.cel.errors import BudgetExceeded, CompileError, CostExceeded, EvaluationError
    from vapcheck.cel.explanation import Explanation, explain
    from vapcheck.cel.program import BUDGET, PER_CALL_LIMIT, Budget, Program, Scope

__all__ = [
    "BUDGET",
    "PER_CALL_LIMIT",
    "Budget",
    "BudgetExceeded",
    "CompileError",
    "CostExceeded",
    "Environment",
    "EvaluationError",
    "Explanation",
    "Program",
    "Scope",
    "explain",
]

__getattr__ = first_use(
    __name__,
    {
        "environment": "Environment",
        "errors": "BudgetExceeded EvaluationError CompileError CostExceeded",
        "explanation": "Explanation explain",
        "program": "BUDGET PER_CALL_LIMIT Budget Program Scope",
    },
)
