"""CEL as in Kubernetes: cel-expr-python checks expressions, and Python evaluates them as the API server does.

It handles expressions and values only. Its callers handle policies and objects. What they use is in the
modules environment, program (Program, Scope, Budget), explanation and errors, and is imported from there:
compiling needs libraries that reading a quantity does not.

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
"""
