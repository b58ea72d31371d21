"""CEL as Kubernetes has it: cel-expr-python with the API server's libraries, refusals and limits.

It knows expressions and values; policies and objects are its callers' business.

    Environment(variables, *, typed=...)          names (may be dotted) -> CEL type signature ("dyn", "list(int)")
    Environment.admission(params=, authorizer=)   what a ValidatingAdmissionPolicy sees: object, oldObject, request,
                                                  namespaceObject (typed), params, authorizer(.requestResource)
    .with_variable(name, program)                 `variables.<name>`, typed by its program as the API server does
    .compile(expression, expects=())              -> Program; raises CompileError
    Program                                       .expression .result_type .reads (names of variables, dotted)
    .evaluate(scope)                              -> Python value; raises CelError, CostExceeded, BudgetExceeded
    Scope(values, budget=Budget())                values of one object: name -> JSON value; nothing is converted or
                                                  copied, so one is cheap; a name that is absent is an error on use
    .with_variables({name: Program}, budget=)     the same values with a policy's lazy `variables.<name>` (memoised)
    .with_values({...})                           the same values with some more (params of one binding)
    Budget(limit)                                 cost units left for all expressions of one policy, one request

Values: null, bool, int, float, str, bytes, list/tuple and dict stand for themselves; the others are in values.py
(Uint, Duration, Timestamp, Optional, TypeValue); opaque Kubernetes values are the libraries' own frozen dataclasses.
"""

from policies.engine.cel.environment import Environment
from policies.engine.cel.errors import BudgetExceeded, CelError, CompileError, CostExceeded
from policies.engine.cel.program import BUDGET, PER_CALL_LIMIT, Budget, Program, Scope

__all__ = [
    "BUDGET",
    "PER_CALL_LIMIT",
    "Budget",
    "BudgetExceeded",
    "CelError",
    "CompileError",
    "CostExceeded",
    "Environment",
    "Program",
    "Scope",
]
