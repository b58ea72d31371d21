"""Finds mistakes in expressions that no object of the matched kinds can satisfy: a misspelt field, a number
as text.

The API server does the same after it has taken a policy, and writes what it finds into
`status.typeChecking.expressionWarnings` (admission/plugin/policy/validating/typechecking.go, 1.36); here it
is found before. As there, rules with wildcard groups or versions and subresources are passed over, and ten
kinds are looked at, at most. In addition, match conditions, variables and audit annotations are checked, and
variables that are objects keep their type. How types differ from the server's: `object_types`.

For several kinds it reports what is wrong in every one of them, where the server reports what is wrong in
any: `object.kind == 'Pod' ? object.spec : object.spec.template.spec` is right though neither half suits both.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from vapcheck.policy.model import Expression, Policy
from vapcheck.policy.typed_expressions import Attempt, attempt
from vapcheck.server.kinds import Kinds, Resource
from vapcheck.server.schema import Schema

MAX_KINDS = 10
"""Kinds of one rule that are checked, as in the API server (maxTypesToCheck)."""
_ROUNDS = 8
"""How often a policy is checked again with fewer restrictions; each try drops at least one."""


@dataclass(frozen=True, slots=True)
class TypeWarning:
    """One part of an expression that can't be right."""

    expression: Expression
    message: str
    """In the checker's words: `undefined field 'hostNetwrk'`."""
    remediation: str
    """The field that was probably meant, or nothing."""
    line: int
    """In the expression's own text, from 1; as the column."""
    column: int
    kinds: tuple[Resource, ...]
    """The kinds in which it is wrong."""


def type_check(policies: Sequence[Policy], kinds: Kinds) -> dict[str, list[TypeWarning]]:
    """By policy name, what is wrong in every kind that the policy matches.

    All policies at once, as setting up the checker takes the most time. They have to compile.
    """
    matched = {policy.name: matched_kinds(policy, kinds) for policy in policies}
    found = {name: list[TypeWarning]() for name in matched}
    pending = [
        Attempt.of(policy, tuple(rows.values()), _params(policy, kinds), number)
        for number, policy in enumerate(policies)
        if (rows := matched[policy.name])
    ]
    for _ in range(_ROUNDS):
        attempt(pending)
        again = [one for one in pending if one.take_liberties()]
        for one in pending:
            if one not in again:
                found[one.policy.name] = _warnings(one, tuple(matched[one.policy.name]))
        pending = again
    return found


def matched_kinds(policy: Policy, kinds: Kinds) -> dict[Resource, Schema]:
    """The kinds that the policy's rules name, with their schemas: neither wildcards nor unknown kinds."""
    found: dict[Resource, Schema] = {}
    for rule in policy.match.rules:
        if "*" in rule.groups or "*" in rule.versions:
            continue
        plurals = sorted(plural for plural, subresource in rule.resources if not subresource)
        count = 0
        for group, version, plural in itertools.product(sorted(rule.groups), sorted(rule.versions), plurals):
            resource = kinds.by_plural(group, version, plural)
            schema = resource and kinds.schema(resource.api_version, resource.kind)
            if resource and schema:
                found[resource] = schema
                count += 1
                if count == MAX_KINDS:
                    return found
    return found


def _params(policy: Policy, kinds: Kinds) -> Schema | None:
    return kinds.schema(*policy.param_kind) if policy.param_kind else None


def _warnings(one: Attempt, kinds: tuple[Resource, ...]) -> list[TypeWarning]:
    return [
        TypeWarning(row, problem.message, problem.remediation, problem.line, problem.column, kinds)
        for row, problems in one.problems()
        for problem in problems
    ]
