"""All policies of a check with their bindings, compiled; and a finding for each that can't be used.

What the API server would not accept is refused here, never passed over. It judges no objects (`judge`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vapcheck.manifests.documents import Document
from vapcheck.outcome import Level, ObjectRef, PolicyFinding
from vapcheck.policy.compiled_policy import CompiledPolicy, Compiler
from vapcheck.policy.model import BINDING, GROUP, POLICY, Binding, ValidationAction
from vapcheck.policy.plausibility import unknown_resources, wrong_metadata
from vapcheck.policy.reader import read_binding, read_policy
from vapcheck.server.kinds import Kinds
from vapcheck.server.minors import MINORS, number

_SERVED = f"{GROUP}/v1"
"""What policies and bindings are written in: every known minor serves it."""
UNKNOWN_MINOR = "unknown-minor"
"""The rule of the note that a cluster is judged as another minor than its own."""
_BIND = f"Add a {BINDING}, or evaluate it as if bound with --bind deny (or warn, audit)."


@dataclass(frozen=True, slots=True)
class BoundPolicy:
    """A policy with the bindings that put it into force."""

    compiled: CompiledPolicy
    bindings: tuple[Binding, ...]


@dataclass(frozen=True, slots=True)
class PolicySet:
    """Every usable policy, in the order of their names, and what is wrong with the rest."""

    policies: tuple[BoundPolicy, ...]
    findings: tuple[PolicyFinding, ...]


def is_policy(document: Document) -> bool:
    """Whether the document is a ValidatingAdmissionPolicy or a binding of one."""
    return is_of(GROUP, document.body) and document.body.get("kind") in (POLICY, BINDING)


def is_of(group: str, body: Mapping[str, Any]) -> bool:
    """Whether an object is of an API group."""
    return str(body.get("apiVersion", "")).rpartition("/")[0] == group


def read_policies(
    documents: Iterable[Document],
    kinds: Kinds | None = None,
    compiler: Compiler | None = None,
    bind: ValidationAction | None = None,
) -> PolicySet:
    """Reads, validates and compiles the policies and bindings among the documents.

    `kinds`: those that rules are expected to name; by default the built-in ones. `compiler`: one that may
    have compiled some of it before. `bind`: the action of policies that no binding names; None for none.
    """
    kinds = kinds or Kinds.builtin()
    documents = list(documents)
    findings: list[PolicyFinding] = []
    compiled: dict[str, CompiledPolicy] = {}
    bindings: dict[str, Binding] = {}
    known: dict[str, Document] = {}
    compiler = compiler or Compiler()
    for document in documents:
        if not is_policy(document):
            continue
        if document.body["kind"] == BINDING:
            binding, problems = read_binding(document)
            problems += _unserved(document, kinds)
            if binding.name in bindings:
                if bindings[binding.name].document.body != document.body:
                    findings.append(_twice(document, bindings[binding.name].document))
                continue
            bindings[binding.name] = binding
            problems += wrong_metadata(document, kinds)
            findings += [engine_finding("invalid-binding", document, path, text) for path, text in problems]
            continue
        policy, problems = read_policy(document)
        problems += _unserved(document, kinds)
        if policy.name in known:
            if known[policy.name].body != document.body:
                findings.append(_twice(document, known[policy.name]))
            continue
        known[policy.name] = document
        problems += wrong_metadata(document, kinds)
        findings += [engine_finding("invalid-policy", document, path, text) for path, text in problems]
        if problems:
            continue
        findings += [
            engine_finding("unknown-resource", document, path, text, level="warn")
            for path, text in unknown_resources(policy, kinds)
        ]
        outcome = compiler.compile(policy, kinds.minor)
        if isinstance(outcome, CompiledPolicy):
            compiled[policy.name] = outcome
        else:
            for row in outcome:
                finding = engine_finding(
                    "invalid-policy", document, row.path, row.message, expression=row.expression
                )
                findings.append(replace(finding, remediation=row.remediation))
    if bind:
        unbound = known.keys() - {binding.policy for binding in bindings.values()}
        for name in sorted(unbound & compiled.keys()):
            kind = compiled[name].policy.param_kind
            made, _ = read_binding(binding_of(known[name], bind, _only_namespace(documents, kind)))
            bindings[f"{name} as if bound"] = made
    findings += _loose_ends(known, list(bindings.values()))
    bound = [
        BoundPolicy(item, tuple(b for b in bindings.values() if b.policy == name))
        for name, item in sorted(compiled.items())
    ]
    return PolicySet(tuple(bound), tuple(findings))


def _unserved(document: Document, kinds: Kinds) -> Iterator[tuple[str, str]]:
    """What is wrong with the version that a policy or a binding is written in."""
    version = document.body["apiVersion"]
    if version != _SERVED:
        # Kinds include what is served only where --runtime-config says so: v1beta1 until 1.33.
        off = " unless it is enabled" if kinds.resource(version, document.body["kind"]) else ""
        yield "apiVersion", f"{version!r} is not served by Kubernetes {kinds.minor}{off}; write {_SERVED}"


def other_minor(kinds: Kinds) -> Iterator[PolicyFinding]:
    """A note where the cluster's minor is not known: what it is judged as."""
    if number(kinds.kubernetes) != number(kinds.minor):
        yield PolicyFinding(
            "warn",
            UNKNOWN_MINOR,
            f"Kubernetes {kinds.kubernetes} is unknown, only {MINORS[0]} to {MINORS[-1]} are known; "
            f"it is treated as {kinds.minor}",
            origin="engine",
            remediation="Differences of that version are not considered; a dry run on its API server "
            "shows them.",
        )


def mutating_policies(documents: Iterable[Document]) -> Iterator[PolicyFinding]:
    """A note for each MutatingAdmissionPolicy: what it would change is not seen."""
    for document in documents:
        body = document.body
        if is_of(GROUP, body) and body.get("kind") == "MutatingAdmissionPolicy":
            message = "is not applied: objects are evaluated without its changes"
            finding = engine_finding("mutating-policy", document, "", message, level="audit")
            yield replace(
                finding,
                remediation="If policies depend on its changes, provide the changed objects.",
            )


def binding_of(policy: Document, action: ValidationAction, namespace: str = "") -> Document:
    """A binding of the policy to everything, with every parameter that is given (in `namespace`, if any)."""
    body = policy.body
    name = ObjectRef.of(body).name
    spec: dict[str, Any] = {"policyName": name, "validationActions": [action]}
    own = body.get("spec")
    if isinstance(own, dict) and own.get("paramKind"):
        spec["paramRef"] = {"selector": {}, "parameterNotFoundAction": "Deny"}
        if namespace:
            spec["paramRef"]["namespace"] = namespace
    made = {"apiVersion": body.get("apiVersion"), "kind": BINDING, "metadata": {"name": name}, "spec": spec}
    return Document(made, policy.file, 0)


def _only_namespace(documents: Iterable[Document], kind: tuple[str, str] | None) -> str:
    """The namespace of all objects of a kind, where it is one; that of a policy's parameters is often not
    that of the objects."""
    bodies = (document.body for document in documents)
    found = {
        ObjectRef.of(body).namespace or ""
        for body in bodies
        if (body.get("apiVersion"), body.get("kind")) == kind
    }
    return found.pop() if len(found) == 1 else ""


def _loose_ends(known: dict[str, Document], bindings: Sequence[Binding]) -> list[PolicyFinding]:
    findings = []
    for binding in bindings:
        if binding.policy and binding.policy not in known:
            message = f"the policy {binding.policy!r} is missing; add it, or correct the name"
            findings.append(engine_finding("unknown-policy", binding.document, "spec.policyName", message))
    bound = {binding.policy for binding in bindings}
    for name, document in known.items():
        if name not in bound:
            message = "no binding names this policy, so nothing enforces it"
            finding = engine_finding("unbound-policy", document, "", message, level="warn")
            findings.append(replace(finding, remediation=_BIND))
    return findings


def _twice(document: Document, first: Document) -> PolicyFinding:
    where = f"{first.file}:{first.line}" if first.line else first.file
    message = f"the name is already used at {where}; rename one of them"
    return engine_finding("duplicate-policy", document, "metadata.name", message)


def engine_finding(
    rule: str, document: Document, path: str, message: str, *, level: Level = "deny", expression: str = ""
) -> PolicyFinding:
    """A finding of the engine itself about a document."""
    line, column = document.position(path)
    return PolicyFinding(
        level,
        rule,
        message,
        origin="engine",
        object=ObjectRef.of(document.body),
        file=document.file,
        line=line,
        column=column,
        path=path,
        expression=expression,
    )
