"""One check: documents in, a Report out.

The entry point for callers that have manifests. It reads no files (see `documents`) and prints nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vapcheck.judging.judge import Judge
from vapcheck.judging.many import judge_many
from vapcheck.judging.overview import overview
from vapcheck.judging.request import User
from vapcheck.manifests.documents import Document
from vapcheck.outcome import PolicyFinding, Report
from vapcheck.policy.compiled_policy import Compiler
from vapcheck.policy.model import ValidationAction
from vapcheck.policy.policy_set import (
    PolicySet,
    engine_finding,
    is_policy,
    mutating_policies,
    other_minor,
    read_policies,
)
from vapcheck.server.kinds import Kinds, resource_of
from vapcheck.server.subresources import subresource_of


def check(
    documents: Sequence[Document],
    *,
    policies: Sequence[Document] = (),
    kinds: Kinds | None = None,
    user: User = User(),  # noqa: B008  (immutable)
    operation: str = "CREATE",
    typed: bool = False,
    compiler: Compiler | None = None,
    namespace: str = "",
    bind: ValidationAction | None = None,
    subresource: str = "",
) -> Report:
    """Judges every object among `documents` by the policies among `documents` and `policies`.

    Namespaces, parameters, CRDs and RBAC objects are looked up in both. `policies` themselves are not judged;
    with `typed` their expressions are also checked against the schemas of the kinds that they match. To check
    several bundles in a row, pass one `compiler` to all calls, since compiling takes longer than judging.
    Objects among `documents` without a namespace are in `namespace`, as kubectl sends them; policies that no
    binding names are judged with the action `bind`, if any, wherever their rules match. With a `subresource`
    (exec, pods/exec) the requests are for that, of the objects that have it, in place of `operation`.
    `kinds`: of which Kubernetes the cluster is, `Kinds.builtin("1.34")`; by default the newest known.
    """
    kinds = (kinds or Kinds.builtin()).with_crds([*documents, *policies])
    if namespace:
        documents = [_placed(document, kinds, namespace) for document in documents]
    everything = [*documents, *policies]
    policy_set = read_policies(everything, kinds, compiler, bind)
    judge = Judge(policy_set, everything, kinds)
    findings = [*other_minor(kinds), *policy_set.findings, *mutating_policies(everything)]
    if typed:
        findings += _mistyped(policy_set, kinds)
    objects = [document for document in documents if not is_policy(document)]
    if subresource:
        objects = [document for document in objects if subresource_of(document.body, subresource, kinds)]
    judged = set(map(id, objects))
    findings += [row for one, rows in judge.context.unreadable if id(one) not in judged for row in rows]
    findings += judge_many(judge, objects, operation=operation, user=user, subresource=subresource)
    findings += overview(policy_set, judge.tally, subresource or operation)
    tally = judge.tally
    return Report(tuple(findings), len(objects), tally.evaluations, tally.matched, tally.reached)


def _placed(document: Document, kinds: Kinds, namespace: str) -> Document:
    """The document in `namespace`, where it could be in one and names none."""
    metadata = document.body.get("metadata") or {}
    if not isinstance(metadata, dict) or metadata.get("namespace"):
        return document
    if not resource_of(document.body, kinds).namespaced:
        return document
    return replace(document, body={**document.body, "metadata": {**metadata, "namespace": namespace}})


def _mistyped(found: PolicySet, kinds: Kinds) -> list[PolicyFinding]:
    """Fields that no object of a matched kind can have: a warning, as in the server."""
    from vapcheck.policy.type_check import type_check  # sets up a checker, which `up` has no use for

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
            findings.append(replace(finding, remediation=warning.remediation))
    return findings
