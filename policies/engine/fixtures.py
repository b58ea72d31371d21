"""Objects that a policy must let pass and objects that it must refuse, kept beside it, and whether it does.

    DIR/*.yaml                          policies and bindings
    DIR/fixtures/<policy>/good*.yaml    each object must pass
    DIR/fixtures/<policy>/bad*.yaml     each object must be refused
    DIR/fixtures/<policy>/context.yaml  Namespaces, parameters, CRDs and bindings that they need; never judged

Knows policies and objects in general; prints nothing. The annotations of a fixture are listed at `_case`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpupool.findings import Finding
from policies.engine.documents import SUFFIXES, Document, from_bodies, read_files
from policies.engine.fixture_names import (
    ANNOTATIONS,
    file_kind,
    files_of,
    mapping_in,
    misnamed,
    misplaced,
    unknown_annotation,
)
from policies.engine.identity import identity, read_extra
from policies.engine.judge import Judge
from policies.engine.kinds import Kinds
from policies.engine.outcome import PolicyFinding
from policies.engine.policy import ANNOTATION, BINDING, POLICY
from policies.engine.policy_set import PolicySet, binding_of, is_policy, read_policies
from policies.engine.request import OPERATIONS, User
from policies.engine.subresources import subresource_of

FOLDER = "fixtures"


@dataclass(frozen=True, slots=True)
class Case:
    """One object with what should happen to it."""

    document: Document
    """Without the annotations that say how to judge it."""
    place: str
    """`file:line`."""
    good: bool
    expect: str = ""
    """Part of the message of a refusal."""
    operation: str = "CREATE"
    user: User = field(default_factory=identity)
    old: dict[str, Any] | None = None
    subresource: str = ""
    """As pods/exec; the operation follows from it."""

    @property
    def name(self) -> str:
        """`Pod team-a/train`."""
        metadata = self.document.body.get("metadata") or {}
        name = metadata.get("name") or metadata.get("generateName") or "?"
        namespace = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
        return f"{self.document.body.get('kind')} {namespace}{name}"


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that a fixture shows to be wrong, or something wrong with the fixtures."""

    place: str
    """`file:line`, or the folder."""
    object: str
    """As `Pod team-a/train`, or nothing."""
    message: str


@dataclass(frozen=True, slots=True)
class Suite:
    """One policy with its fixtures."""

    policy: Document
    bindings: tuple[Document, ...]
    context: tuple[Document, ...]
    cases: tuple[Case, ...]
    problems: tuple[Failure, ...] = ()
    """What is wrong with the fixtures themselves."""

    @property
    def name(self) -> str:
        """The policy's name."""
        return str((self.policy.body.get("metadata") or {}).get("name") or "")


def read_suites(folder: Path) -> tuple[list[Suite], list[Failure]]:
    """Every policy of `folder` with its fixtures, by name; and what is wrong with no policy in particular."""
    documents, unread = read_files(sorted(path for path in folder.glob("*") if path.suffix in SUFFIXES))
    policies = [document for document in documents if is_policy(document)]
    others = [document for document in documents if not is_policy(document)]
    suites = [
        _suite(document, policies, others, folder / FOLDER)
        for document in policies
        if document.body["kind"] == POLICY
    ]
    wrong = [_unreadable(finding) for finding in unread]
    names = {suite.name for suite in suites}
    fixtures = folder / FOLDER
    wrong += [
        Failure(str(path), "", misplaced(path, names))
        for path in (files_of(fixtures) if fixtures.is_dir() else ())
        if not path.is_dir() or path.name not in names
    ]
    return sorted(suites, key=lambda suite: suite.name), wrong


def run(suite: Suite, kinds: Kinds) -> list[Failure]:
    """All that is wrong with the fixtures, with the policy, or between them. `kinds` from `kinds_of`.

    The fixtures of a policy without a binding are judged all the same, as if it were bound to everything.
    """
    found = policy_set(suite, suite.policy)
    broken = [
        Failure(f"{finding.file}:{finding.line}", "", _told(finding))
        for finding in found.findings
        if finding.level == "deny"
    ]
    unbound = [] if suite.bindings else [_unbound(suite)]
    return [*suite.problems, *unbound, *(broken or failing(suite, found, kinds))]


def _told(finding: PolicyFinding) -> str:
    """What is wrong with the policy itself, where, and what to do."""
    return "; ".join(part for part in (f"{finding.path}: {finding.message}", finding.fix) if part)


def _unbound(suite: Suite) -> Failure:
    place = f"{suite.policy.file}:{suite.policy.line}"
    message = f"nothing enforces it: no {BINDING} names it; add one beside it, or to its context.yaml"
    return Failure(place, "", message)


def policy_set(suite: Suite, policy: Document) -> PolicySet:
    """`policy`, the suite's or a changed one, with the bindings of the suite."""
    return read_policies([policy, *(suite.bindings or (binding_of(suite.policy, "Deny"),))])


def failing(suite: Suite, found: PolicySet, kinds: Kinds) -> Iterator[Failure]:
    """Fixtures with another outcome than they should have, one after another, for who stops at the first."""
    judge = Judge(found, suite.context, kinds)
    for document, wrong in judge.context.unreadable:
        for finding in wrong:
            place = f"{document.file}:{finding.line}"
            yield Failure(place, str(finding.object), f"{finding.path}: {finding.message}")
    for case in suite.cases:
        if case.subresource and not subresource_of(case.document.body, case.subresource, kinds):
            message = f"{case.subresource!r} is no subresource of this object; write it as in pods/exec"
            yield Failure(case.place, case.name, message)
            continue
        findings = judge.judge(
            case.document,
            operation=case.operation,
            old=case.old,
            user=case.user,
            subresource=case.subresource,
        )
        message = _verdict(case, findings)
        if message:
            yield Failure(case.place, case.name, message)


def kinds_of(suite: Suite, builtin: Kinds) -> Kinds:
    """The built-in kinds and those of the suite's CRDs."""
    return builtin.with_crds(suite.context)


def _verdict(case: Case, findings: Sequence[PolicyFinding]) -> str:
    """What is wrong with the outcome of one case; nothing where it is as it should be."""
    told = "; ".join(dict.fromkeys(finding.message for finding in findings))
    if case.good:
        return f"a good fixture is refused: {told}" if findings else ""
    if not findings:
        return "a bad fixture passes"
    if case.expect:
        if any(case.expect in finding.message for finding in findings):
            return ""
        return f"refused, but not with {case.expect!r}: {told}"
    if not any(finding.reason for finding in findings):
        return f"refused by an error instead of a validation: {told}"
    return ""


def _suite(policy: Document, policies: list[Document], others: list[Document], fixtures: Path) -> Suite:
    name = str((policy.body.get("metadata") or {}).get("name") or "")
    folder = fixtures / name if name else fixtures / "?"
    context: list[Document] = []
    cases: list[Case] = []
    problems: list[Failure] = []
    for path in files_of(folder) if folder.is_dir() else ():
        kind = file_kind(path)
        if kind is None:
            problems.append(Failure(str(path), "", misnamed(path)))
            continue
        documents, unread = read_files([path])
        problems += [_unreadable(finding) for finding in unread]
        if kind == "context":
            context += documents
        else:
            found, wrong = _cases(documents, good=kind == "good")
            cases += found
            problems += wrong
    for good, word in ((True, "good"), (False, "bad")):
        if not any(case.good is good for case in cases):
            problems.append(Failure(str(folder), "", f"no {word} fixture; add {folder / word}.yaml"))
    known = {_key(document.body) for document in context}
    context += [document for document in others if _key(document.body) not in known]
    bindings = [d for d in (*policies, *context) if d.body.get("kind") == BINDING and _names(d, name)]
    context = [document for document in context if not is_policy(document)]
    return Suite(policy, tuple(bindings), tuple(context), tuple(cases), tuple(problems))


def _cases(documents: Iterable[Document], *, good: bool) -> tuple[list[Case], list[Failure]]:
    cases: list[Case] = []
    problems: list[Failure] = []
    old: Document | None = None
    for document in documents:
        if _annotations(document.body).get("old") == "true" and not unknown_annotation(document):
            old = document
            continue
        outcome = _case(document, old, good=good)
        if isinstance(outcome, Case):
            cases.append(outcome)
        else:
            problems.append(outcome)
        old = None
    return cases, problems


def _case(document: Document, old: Document | None, *, good: bool) -> Case | Failure:
    """A fixture's annotations, each after `policies.gpupool.dev/`: `operation` (default CREATE) or
    `subresource` (as pods/exec), `user`, `uid`, `groups` and `extra` (KEY=VALUE; both with commas between),
    `expect` (part of the message; bad ones only), and on the object before it `old: "true"`, for UPDATE and
    DELETE.
    """
    said = _annotations(document.body)
    place = f"{document.file}:{document.line}"
    unknown = unknown_annotation(document)
    if unknown:
        return Failure(place, "", unknown)
    operation = said.get("operation", "CREATE")
    if operation not in OPERATIONS[:3]:
        return Failure(place, "", f"{operation!r} is no operation; choose one of {', '.join(OPERATIONS[:3])}")
    subresource = said.get("subresource", "")
    if subresource and "operation" in said:
        return Failure(place, "", "the operation follows from the subresource; remove that annotation")
    if old is not None and operation == "CREATE" and not subresource:
        return Failure(place, "", "there is no old object on CREATE; set the operation to UPDATE")
    if good and "expect" in said:
        return Failure(place, "", "a good fixture expects no message; remove the annotation, or call it bad")
    groups, pairs = _listed(said.get("groups", "")), _listed(said.get("extra", ""))
    try:
        user = identity(said.get("user", ""), groups, said.get("uid", ""), read_extra(pairs))
    except ValueError as error:
        return Failure(place, "", f"extra: {error} is no pair; write KEY=VALUE, with commas between several")
    (bare,) = from_bodies([_bare(document.body)], document.file)
    return Case(
        bare,
        place,
        good,
        said.get("expect", ""),
        operation,
        user,
        _bare(old.body) if old else None,
        subresource,
    )


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _annotations(body: dict[str, Any]) -> dict[str, str]:
    found = mapping_in(body, "metadata", "annotations")
    return {key: str(found[ANNOTATION + key]) for key in ANNOTATIONS if ANNOTATION + key in found}


def _bare(body: dict[str, Any]) -> dict[str, Any]:
    """A copy without the annotations that only a fixture has."""
    bare = copy.deepcopy(body)
    metadata, annotations = mapping_in(bare, "metadata"), mapping_in(bare, "metadata", "annotations")
    if annotations:
        kept = {k: v for k, v in annotations.items() if k not in {ANNOTATION + key for key in ANNOTATIONS}}
        metadata["annotations"] = kept
        if not kept:
            del metadata["annotations"]
    return bare


def _names(binding: Document, policy: str) -> bool:
    return bool(mapping_in(binding.body, "spec").get("policyName") == policy)


def _key(body: dict[str, Any]) -> tuple[Any, ...]:
    metadata = body.get("metadata") or {}
    return body.get("apiVersion"), body.get("kind"), metadata.get("namespace"), metadata.get("name")


def _unreadable(finding: Finding) -> Failure:
    return Failure(f"{finding.file}:{finding.line}", "", f"{finding.message}; {finding.hint}")
