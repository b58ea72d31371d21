"""What is wrong in any kind that a policy matches, kind by kind, as the API server reports it."""

from __future__ import annotations

from vapcheck.policy.model import Policy
from vapcheck.policy.type_check import TypeWarning, matched_kinds
from vapcheck.policy.typed_expressions import Attempt, attempt
from vapcheck.server.kinds import Kinds


def type_check_each(policy: Policy, kinds: Kinds) -> list[TypeWarning]:
    """The policy has to compile."""
    matched = matched_kinds(policy, kinds)
    params = kinds.schema(*policy.param_kind) if policy.param_kind else None
    attempts = [Attempt.of(policy, (schema,), params, n) for n, schema in enumerate(matched.values())]
    attempt(attempts)
    return [
        TypeWarning(row, problem.message, problem.remediation, problem.line, problem.column, (kind,))
        for kind, one in zip(matched, attempts, strict=True)
        for row, problems in one.problems()
        for problem in problems
    ]
