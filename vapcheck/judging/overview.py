"""What a whole check says beside the findings about single objects: policies that were applied to nothing and
why, namespaces that are not given, scopes that were assumed.

It puts into words what the judge counted (`tally`) and judges nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from vapcheck.judging.tally import Reach, Tally, UnseenNamespace
from vapcheck.outcome import ObjectRef, PolicyFinding
from vapcheck.policy.parameters import missing, wanted
from vapcheck.policy.policy_set import BoundPolicy, PolicySet, engine_finding

_LEFT_OUT = {
    Reach.RULES: "no object has a kind that the rules name for {operation}",
    Reach.SELECTORS: "selectors or resourceNames of the policy exclude everything",
    Reach.BINDINGS: "matchResources of the bindings exclude everything",
    Reach.CONDITIONS: "matchConditions exclude everything",
}


def overview(found: PolicySet, tally: Tally, operation: str) -> Iterator[PolicyFinding]:
    """Everything that the objects of a check, asked for by `operation` or a subresource, lead to together."""
    for name, unseen in sorted(tally.unseen.items()):
        yield _unseen(name, unseen)
    for (api_version, kind), (file, line) in sorted(tally.assumed.items()):
        yield PolicyFinding(
            "audit",
            "assumed-namespaced",
            f"the CustomResourceDefinition of {kind} ({api_version}) is missing; objects without a "
            "namespace are evaluated as namespaced",
            origin="document",
            object=ObjectRef(api_version, kind, None, ""),
            file=file,
            line=line,
            remediation="Add the CustomResourceDefinition to the manifests, or use --policies.",
        )
    yield from _unmatched(found.policies, tally, operation)


def _unseen(name: str, unseen: UnseenNamespace) -> PolicyFinding:
    bindings, policies = len(unseen.selecting), len(unseen.reading)
    uses = []
    if bindings:
        uses.append(f"{bindings} binding{' selects' if bindings == 1 else 's select'} by its labels")
    if policies:
        uses.append(f"{policies} polic{'y reads' if policies == 1 else 'ies read'} namespaceObject")
    return PolicyFinding(
        "warn",
        "unknown-namespace",
        f"namespace {name} is missing; {' and '.join(uses)}",
        origin="document",
        object=ObjectRef("v1", "Namespace", None, name),
        file=unseen.file,
        line=unseen.line,
        remediation="Add the Namespace to the manifests, or use --policies; or use "
        f"--namespace {name} --namespace-labels KEY=VALUE.",
    )


def _unmatched(policies: Iterable[BoundPolicy], tally: Tally, operation: str) -> Iterator[PolicyFinding]:
    for bound in policies:
        policy = bound.compiled.policy
        if not bound.bindings or tally.matched[policy.name]:
            continue
        message = f"matched no object: {_cause(bound, tally, operation)}"
        finding = engine_finding("unmatched-policy", policy.document, "", message, level="audit")
        without = tally.unparameterised.get(policy.name)
        binding = next((one for one in bound.bindings if one.name == without), None)
        if binding and binding.param_ref and policy.param_kind:
            message = f"was not applied: its parameter, {wanted(policy, binding)}, is missing"
            finding = engine_finding("missing-parameter", policy.document, "", message, level="audit")
            finding = replace(finding, binding=binding.name, remediation=missing(policy, binding))
        yield replace(finding, title=policy.text("title"))


def _cause(bound: BoundPolicy, tally: Tally, operation: str) -> str:
    bindings = {binding.name for binding in bound.bindings}
    reached = tally.reached.get(bound.compiled.policy.name, Reach.RULES)
    if reached in (Reach.SELECTORS, Reach.BINDINGS):
        unseen = sorted(name for name, one in tally.unseen.items() if bindings & one.selecting)
        if unseen:
            return f"selected by labels of a missing namespace, {', '.join(unseen)}"
    rules = bound.compiled.policy.match.rules
    named = sorted({f"{plural}/{sub}" for rule in rules for plural, sub in rule.resources})
    if reached is Reach.RULES and not any(name.endswith(("/", "/*")) for name in named):
        return f"the rules name only subresources, {', '.join(named)}; use --subresource {named[0]}"
    return _LEFT_OUT[reached].format(operation=operation)
