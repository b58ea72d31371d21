"""One check: documents in, a Report out.

The entry point of everybody who has manifests. It reads no files (see `documents`) and prints nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from policies.engine.documents import Document
from policies.engine.judge import Judge
from policies.engine.kinds import Kinds
from policies.engine.outcome import PolicyFinding, Report
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
) -> Report:
    """Judges every object among `documents` by the policies among `documents` and `policies`.

    Namespaces, parameters, CRDs and RBAC objects are looked up in both. `policies` themselves are not judged.
    """
    everything = [*documents, *policies]
    kinds = (kinds or Kinds.builtin()).with_crds(everything)
    found = read_policies(everything)
    judge = Judge(found, everything, kinds)
    findings = list(found.findings)
    objects = 0
    for document in documents:
        if not is_policy(document):
            objects += 1
            findings += judge.judge(document, operation=operation, user=user)
    findings += _unmatched(found, judge)
    return Report(tuple(findings), objects, judge.evaluations, dict(judge.matched))


def _unmatched(found: PolicySet, judge: Judge) -> list[PolicyFinding]:
    findings = []
    for bound in found.policies:
        policy = bound.compiled.policy
        if bound.bindings and not judge.matched[policy.name]:
            finding = engine_finding("unmatched-policy", policy.document, "", _UNMATCHED, level="audit")
            findings.append(replace(finding, title=policy.text("title")))
    return findings
