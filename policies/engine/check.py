"""One check: documents in, a Report out.

The entry point of everybody who has manifests. It reads no files (see `documents`) and prints nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from policies.engine.compiled_policy import Compiler
from policies.engine.documents import Document
from policies.engine.judge import Judge
from policies.engine.kinds import Kinds
from policies.engine.many import judge_many
from policies.engine.outcome import PolicyFinding, Report
from policies.engine.parameters import missing, wanted
from policies.engine.policy_set import PolicySet, engine_finding, is_policy, read_policies
from policies.engine.request import User

_UNMATCHED = "matched none of the objects; check its match rules, or ignore this if nothing here concerns it"


def check(
    documents: Sequence[Document],
    *,
    policies: Sequence[Document] = (),
    kinds: Kinds | None = None,
    user: User = User(),  # noqa: B008  (immutable)
    operation: str = "CREATE",
    typed: bool = False,
    compiler: Compiler | None = None,
) -> Report:
    """Judges every object among `documents` by the policies among `documents` and `policies`.

    Namespaces, parameters, CRDs and RBAC objects are looked up in both. `policies` themselves are not judged;
    with `typed` their expressions are also held to the schemas of the kinds that they match. Whoever checks
    several bundles in a row gives all of them one `compiler`, since compiling takes longer than judging.
    """
    everything = [*documents, *policies]
    kinds = (kinds or Kinds.builtin()).with_crds(everything)
    found = read_policies(everything, kinds, compiler)
    judge = Judge(found, everything, kinds)
    findings = list(found.findings)
    if typed:
        findings += _mistyped(found, kinds)
    objects = [document for document in documents if not is_policy(document)]
    judged = set(map(id, objects))
    findings += [row for one, rows in judge.context.unreadable if id(one) not in judged for row in rows]
    findings += judge_many(judge, objects, operation=operation, user=user)
    findings += _unmatched(found, judge)
    return Report(tuple(findings), len(objects), judge.evaluations, dict(judge.matched))


def _mistyped(found: PolicySet, kinds: Kinds) -> list[PolicyFinding]:
    """What no object of a matched kind can have: the server only warns of it, and so do we."""
    from policies.engine.type_check import type_check  # sets up a checker, which `up` has no use for

    policies = {bound.compiled.policy.name: bound.compiled.policy for bound in found.policies}
    findings = []
    for name, warnings in type_check(list(policies.values()), kinds).items():
        for warning in warnings:
            seen_in = ", ".join(f"{kind.api_version} {kind.kind}" for kind in warning.kinds)
            finding = engine_finding(
                "mistyped-expression",
                policies[name].document,
                warning.expression.path,
                f"{warning.message} in {seen_in} (at {warning.line}:{warning.column} of the expression)",
                level="warn",
                expression=warning.expression.text,
            )
            findings.append(replace(finding, fix=warning.hint))
    return findings


def _unmatched(found: PolicySet, judge: Judge) -> list[PolicyFinding]:
    findings = []
    for bound in found.policies:
        policy = bound.compiled.policy
        if not bound.bindings or judge.matched[policy.name]:
            continue
        finding = engine_finding("unmatched-policy", policy.document, "", _UNMATCHED, level="audit")
        without = judge.unparameterised.get(policy.name)
        binding = next((one for one in bound.bindings if one.name == without), None)
        if binding and binding.param_ref and policy.param_kind:
            message = f"was not applied: no {wanted(policy, binding)} is given as its parameter"
            finding = engine_finding("missing-parameter", policy.document, "", message, level="audit")
            finding = replace(finding, binding=binding.name, fix=missing(policy, binding))
        findings.append(replace(finding, title=policy.text("title")))
    return findings
