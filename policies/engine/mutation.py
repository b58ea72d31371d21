"""Whether the fixtures of a policy would notice a mistake in it: weakens one thing at a time and runs them.

A mutant that no fixture tells from the policy shows a guard that nothing proves. Mutants that do not compile
are left out. It must not print.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from policies.engine.compiled_policy import CompiledPolicy, Compiler
from policies.engine.documents import Document, from_bodies
from policies.engine.expression_edits import edits
from policies.engine.fixtures import Suite, failing, policy_set
from policies.engine.kinds import Kinds
from policies.engine.policy_reader import read_policy

Body = dict[str, Any]
_NEUTRAL = {
    "bool": ("true", "false"),
    "int": ("0",),
    "uint": ("0u",),
    "double": ("0.0",),
    "string": ("''",),
    "list": ("[]",),
    "map": ("{}",),
    "kubernetes.Quantity": ("quantity('0')",),
    "optional_type": ("optional.none()",),
    "duration": ("duration('0s')",),
    "timestamp": ("timestamp(0)",),
    "dyn": ("null", "[]", "{}", "''", "0"),
}
"""For the type of a variable, what stands for nothing of it."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """The policy with one thing changed."""

    path: str
    """Of what was changed, as `spec.validations[0].expression`."""
    expression: str
    """As it was; nothing for a rule."""
    what: str
    """What was changed, in words."""
    body: Body


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of all mutants of one policy."""

    tried: int
    unnoticed: tuple[Mutant, ...]


def judge_fixtures(suite: Suite, kinds: Kinds, tell: Callable[[int], None] = lambda _: None) -> Outcome:
    """Run the fixtures against every mutant, each until the first that notices. `tell` gets a running count.

    Only meaningful for a suite that passes.
    """
    tried = 0
    unnoticed = []
    for mutant in mutants(suite.policy):
        (document,) = from_bodies([mutant.body], suite.policy.file)
        found = policy_set(suite, document)
        if any(finding.level == "deny" for finding in found.findings):
            continue  # the API server would not take it
        tried += 1
        tell(tried)
        if next(failing(suite, found, kinds), None) is None:
            unnoticed.append(mutant)
    return Outcome(tried, tuple(unnoticed))


def mutants(policy: Document) -> Iterator[Mutant]:
    """Every mutant of a policy, those that do not compile included, each once."""
    seen = {repr(policy.body)}
    for mutant in _mutants(policy):
        if repr(mutant.body) not in seen:
            seen.add(repr(mutant.body))
            yield mutant


def _mutants(policy: Document) -> Iterator[Mutant]:
    spec = policy.body.get("spec") or {}
    for index, row in enumerate(spec.get("matchConditions") or ()):
        path = f"spec.matchConditions[{index}].expression"
        for value in ("true", "false"):
            yield _replaced(policy, path, row["expression"], value, f"always {value}")
        yield from _edited(policy, path, row["expression"])
    neutral = _neutral_variables(policy)
    for index, row in enumerate(spec.get("variables") or ()):
        path = f"spec.variables[{index}].expression"
        for value in neutral.get(row["name"], ()):
            yield _replaced(policy, path, row["expression"], value, f"replaced by {value}")
        yield from _edited(policy, path, row["expression"])
    for index, row in enumerate(spec.get("validations") or ()):
        path = f"spec.validations[{index}].expression"
        yield _replaced(policy, path, row["expression"], "true", "always true")
        yield from _edited(policy, path, row["expression"])
        worded = row.get("messageExpression")
        if worded:
            body = copy.deepcopy(policy.body)
            del body["spec"]["validations"][index]["messageExpression"]
            yield Mutant(f"spec.validations[{index}].messageExpression", worded, "removed", body)
    yield from _unmatched(policy, spec.get("matchConstraints") or {})


def _edited(policy: Document, path: str, expression: str) -> Iterator[Mutant]:
    for edit in edits(expression):
        yield _replaced(policy, path, expression, edit.text, edit.what)


def _unmatched(policy: Document, match: Body) -> Iterator[Mutant]:
    """Rules and selectors of matchConstraints, each left out.

    A lone resource rule must stay, and so do rules of subresources alone, which few fixtures ask for.
    """
    for name in ("resourceRules", "excludeResourceRules"):
        rules = match.get(name) or []
        for index, rule in enumerate(rules):
            if name == "resourceRules" and (len(rules) == 1 or _only_subresources(rule)):
                continue
            body = copy.deepcopy(policy.body)
            del body["spec"]["matchConstraints"][name][index]
            what = f"removed the rule for {', '.join(map(str, rule.get('resources') or ()))}"
            yield Mutant(f"spec.matchConstraints.{name}[{index}]", "", what, body)
    for name in ("namespaceSelector", "objectSelector"):
        if match.get(name):
            body = copy.deepcopy(policy.body)
            del body["spec"]["matchConstraints"][name]
            yield Mutant(f"spec.matchConstraints.{name}", "", "removed", body)


def _only_subresources(rule: Body) -> bool:
    return all("/" in str(resource) for resource in rule.get("resources") or ())


def _neutral_variables(policy: Document) -> dict[str, tuple[str, ...]]:
    parsed, _ = read_policy(policy)
    compiled = Compiler().compile(parsed)
    if not isinstance(compiled, CompiledPolicy):
        return {}
    return {
        name: _NEUTRAL.get(program.result_type.partition("(")[0], ())
        for name, program in compiled.variables.items()
    }


def _replaced(policy: Document, path: str, expression: str, value: str, what: str) -> Mutant:
    """The policy with `value` at a path of the form `spec.<list>[<index>].<field>`."""
    changed = copy.deepcopy(policy.body)
    rows, _, field = path.removeprefix("spec.").partition("].")
    name, _, index = rows.partition("[")
    changed["spec"][name][int(index)][field] = value
    return Mutant(path, expression, what, changed)
