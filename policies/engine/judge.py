"""Judges objects by policies: the API server's dispatcher, offline.

    requests of one object  x  policies that match  x  bindings that match  x  parameters  ->  findings

After `admission/plugin/policy/validating/dispatcher.go` of the API server 1.36. The server answers with the
first denial; this reports every one. It reads no files and prints nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from policies.engine.addressing import namespace_of, resource_of
from policies.engine.admission_view import Doubt, as_admitted, pod_templates
from policies.engine.cel import Scope
from policies.engine.cel.libraries.authorization import Authorizer, ResourceCheck
from policies.engine.context_objects import ContextObjects, doubtful
from policies.engine.documents import Document
from policies.engine.evaluation import Decision, Evaluation
from policies.engine.kinds import Kinds, Resource
from policies.engine.matching import Matcher, asks_labels, is_exempt
from policies.engine.outcome import Level, ObjectRef, PolicyFinding
from policies.engine.parameters import GIVE_THE_CRD, ParameterError, Parameters
from policies.engine.plausibility import unknown_kind
from policies.engine.policy import Binding, Policy
from policies.engine.policy_set import BoundPolicy, PolicySet, engine_finding
from policies.engine.request import Request, User
from policies.engine.tally import Reach, Tally, UnseenNamespace

Body = dict[str, Any]
_LEVELS: dict[str, Level] = {"Deny": "deny", "Warn": "warn", "Audit": "audit"}


class Judge:
    """Policies with everything that they may look at besides the object: parameters, namespaces, RBAC."""

    def __init__(self, policies: PolicySet, context: Iterable[Document], kinds: Kinds) -> None:
        self._policies = policies.policies
        self._kinds = kinds
        given = list(context)
        self.context = ContextObjects(given, kinds)
        self._parameters = Parameters([document.body for document in given], kinds)
        namespaces = self.context.namespaces
        labels = {name: body["metadata"].get("labels") or {} for name, body in namespaces.items()}
        self._matcher = Matcher(kinds, labels)
        self._candidates: dict[Hashable, list[BoundPolicy]] = {}
        self._for_templates = [b for b in self._policies if b.compiled.policy.judges_pod_templates]
        self._asked: set[tuple[str, str]] = set()
        self.tally = self.new_tally()
        """What was counted so far."""

    def new_tally(self) -> Tally:
        """One in which nothing is counted yet."""
        return Tally.of(bound.compiled.policy.name for bound in self._policies)

    def judge(
        self,
        document: Document,
        *,
        operation: str = "CREATE",
        old: Mapping[str, Any] | None = None,
        user: User = User(),  # noqa: B008  (immutable)
    ) -> list[PolicyFinding]:
        """Every finding about one object; what goes wrong here in judging it is one too, never a silent pass.

        `old` is the object as it was, for UPDATE and DELETE; without it UPDATE compares the object with
        itself, and DELETE takes the document for the old object.
        """
        findings: list[PolicyFinding] = []
        try:
            findings.extend(self._findings(document, operation, old, user))
        except Exception as error:  # a defect of this engine, which must not cost the other objects' findings
            findings.append(_not_judged(document, error))
        return findings

    def _findings(
        self, document: Document, operation: str, old: Mapping[str, Any] | None, user: User
    ) -> Iterator[PolicyFinding]:
        resource = resource_of(document.body, self._kinds)
        if is_exempt(resource):
            return
        wrong_kind = unknown_kind(document, self._kinds)
        if wrong_kind:
            yield replace(engine_finding("unknown-kind", document, "kind", wrong_kind), origin="document")
            return
        doubts: list[Doubt] = []
        request = self._request(document.body, resource, operation, old, user, doubts)
        yield from (doubtful(doubt, document) for doubt in doubts)
        yield from self._on(request, document, "", self._policies)
        if self._for_templates and operation != "DELETE":
            pods = self._kinds.resource("v1", "Pod")
            assert pods is not None
            for path, pod in pod_templates(document.body):
                inner = self._request(pod, pods, "CREATE", None, user)
                yield from self._on(inner, document, path, self._for_templates)

    def _request(
        self,
        body: Body,
        resource: Resource,
        operation: str,
        old: Mapping[str, Any] | None,
        user: User,
        doubts: list[Doubt] | None = None,
    ) -> Request:
        new: Body | None = None
        before: Body | None = None
        if operation != "DELETE":
            new = as_admitted(
                body, self._kinds, operation=operation, surroundings=self.context.surroundings, doubts=doubts
            )
        if operation in ("UPDATE", "DELETE"):
            stored = dict(old) if old is not None else body
            before = as_admitted(
                stored, self._kinds, operation="CREATE", surroundings=self.context.surroundings
            )
        metadata = (new or before or {}).get("metadata") or {}
        name = str(metadata.get("name") or "")
        namespace = ""
        if resource.namespaced:
            namespace = str(metadata.get("namespace") or "default")
        elif resource.kind == "Namespace" and resource.group == "":
            namespace = name
        return Request(operation, resource, name, namespace, new, before, user)

    def _on(
        self, request: Request, document: Document, path: str, policies: Sequence[BoundPolicy]
    ) -> list[PolicyFinding]:
        findings: list[PolicyFinding] = []
        scopes: dict[Resource, Scope] = {}
        for bound, matched, bindings in self._in_force(request, document, policies):
            policy = bound.compiled.policy
            broken = self._parameters.unknown_kind(policy)
            if broken:
                self.tally.matched[policy.name] += 1
                decision, level = Decision("error", broken), _config_level(policy)
                finding = _finding(policy, None, decision, level, document, path)
                findings.append(replace(finding, fix=GIVE_THE_CRD))
                continue
            if matched not in scopes and bindings:
                scopes[matched] = self._scope(request, matched)
            applied = False
            for binding in bindings:
                scope = scopes[matched]
                try:
                    if not self._converts(request.resource, matched):
                        raise ParameterError(_unconverted(request.resource, matched))
                    parameters = self._parameters.of(policy, binding, request.namespace)
                except ParameterError as error:
                    applied = True
                    decision = Decision("error", f"failed to configure binding: {error}")
                    finding = _finding(policy, binding, decision, _config_level(policy), document, path)
                    findings.append(replace(finding, fix=error.fix or finding.fix))
                    continue
                if not parameters:
                    self.tally.unparameterised[policy.name] = binding.name
                for parameter in parameters:
                    values = scope.with_values({"params": parameter}) if policy.param_kind else scope
                    evaluation = Evaluation(bound.compiled, values)
                    verdict = evaluation.verdict()
                    self.tally.evaluations += evaluation.evaluated
                    applied = applied or verdict.applied
                    for decision in verdict.decisions:
                        level = _level(policy, binding, decision)
                        findings.append(_finding(policy, binding, decision, level, document, path))
            self.tally.matched[policy.name] += applied
            if not applied:
                self.tally.reach(policy.name, Reach.CONDITIONS if bindings else Reach.BINDINGS)
        return findings

    def _in_force(
        self, request: Request, document: Document, policies: Sequence[BoundPolicy]
    ) -> Iterator[tuple[BoundPolicy, Resource, list[Binding]]]:
        """The policies that match, as which resource they do, and those of their bindings that match too."""
        key = (id(policies), request.kind)  # the two lists of policies live as long as the judge
        if key not in self._candidates:
            self._candidates[key] = [
                bound
                for bound in policies
                if bound.bindings and self._matcher.may_match(bound.compiled.policy.match, request)
            ]
        candidates = self._candidates[key]
        if candidates:
            self._note_assumed(request, document)
            self._note_unseen(request, document, candidates)
        match = self._matcher.match
        for bound in candidates:
            policy = bound.compiled.policy
            matched = match(policy.match, request)
            if matched is not None:
                yield bound, matched, [binding for binding in bound.bindings if match(binding.match, request)]
            else:
                self.tally.reach(policy.name, Reach.SELECTORS)

    def _note_assumed(self, request: Request, document: Document) -> None:
        own = request.resource
        if self._kinds.resource(own.api_version, own.kind) is None and not namespace_of(document.body):
            self.tally.assumed.setdefault((own.api_version, own.kind), (document.file, document.line))

    def _note_unseen(self, request: Request, document: Document, candidates: Sequence[BoundPolicy]) -> None:
        """What these policies look up in a namespace that isn't given, once for each kind of request."""
        name = request.namespace
        if (
            not name
            or request.is_namespace
            or name in self.context.namespaces
            or (name, request.kind) in self._asked
        ):
            return
        self._asked.add((name, request.kind))
        for bound in candidates:
            policy = bound.compiled.policy
            whole = asks_labels(policy.match.namespace_selector, name)
            selecting = {
                b.name for b in bound.bindings if whole or asks_labels(b.match.namespace_selector, name)
            }
            reading = {policy.name} if bound.compiled.reads_namespace else set()
            if selecting or reading:
                unseen = self.tally.unseen.setdefault(name, UnseenNamespace(document.file, document.line))
                unseen.selecting |= selecting
                unseen.reading |= reading

    def _converts(self, own: Resource, wanted: Resource) -> bool:
        return own == wanted or self._kinds.alike_in_versions(own.api_version, own.kind)

    def _scope(self, request: Request, matched: Resource) -> Scope:
        """What expressions see of a request that matched as this resource."""
        namespace = None
        if request.namespace and not request.is_namespace:
            namespace = self.context.namespace(request.namespace)
        own, user = request.resource, request.user
        authorizer = Authorizer(self.context.rbac, user.name, user.groups)
        return Scope(
            {
                "object": _in_version(request.object, matched),
                "oldObject": _in_version(request.old_object, matched),
                "namespaceObject": namespace,
                "request": request.as_cel(matched),
                "authorizer": authorizer,
                "authorizer.requestResource": ResourceCheck(
                    authorizer, own.group, own.plural, request.subresource, request.namespace, request.name
                ),
            }
        )


def _not_judged(document: Document, error: Exception) -> PolicyFinding:
    """Told without the error's words, which may hold what is in a Secret."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    where = f"{Path(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}" if frame else "the engine"
    message = f"could not be judged: {type(error).__name__} in {where}, a defect of this program"
    finding = engine_finding("not-judged", document, "", message)
    return replace(finding, fix="correct what looks odd in the object, and report the defect with it")


def _in_version(body: Body | None, wanted: Resource) -> Body | None:
    """The object in another version of a kind that is alike in all of them."""
    if body is None or body.get("apiVersion") == wanted.api_version:
        return body
    return {**body, "apiVersion": wanted.api_version}


def _unconverted(own: Resource, wanted: Resource) -> str:
    """The server converts between versions; offline there is nothing to convert with."""
    return (
        f"can't be judged offline: the policy's rule names {wanted.api_version} {wanted.kind}, the object is "
        f"{own.api_version}; write it as {wanted.api_version}, or name {own.version} in the rule too"
    )


def _config_level(policy: Policy) -> Level:
    """Of what keeps a policy from being evaluated at all: the binding's actions don't count."""
    return "deny" if policy.fails_closed else "audit"


def _level(policy: Policy, binding: Binding, decision: Decision) -> Level:
    if decision.kind != "violation" and not policy.fails_closed:
        return "audit"  # the server lets it pass; say at least that it did not hold
    if decision.kind == "audit-error":
        return "deny"  # denied whatever the binding's actions are
    # A binding whose actions can't be read is refused itself; what it would have enforced is denied.
    actions = (action for action in ("Deny", "Warn", "Audit") if action in binding.actions)
    return _LEVELS[next(actions, "Deny")]


def _finding(
    policy: Policy, binding: Binding | None, decision: Decision, level: Level, document: Document, path: str
) -> PolicyFinding:
    path = ".".join(part for part in (path, decision.path) if part)
    line, column = document.position(path)
    message = decision.message
    if decision.kind != "violation" and not policy.fails_closed:
        message += " (ignored: failurePolicy Ignore)"
    return PolicyFinding(
        level=level,
        rule=policy.name,
        message=message,
        binding=binding.name if binding else None,
        object=ObjectRef.of(document.body),
        file=document.file,
        line=line,
        column=column,
        path=path,
        reason=decision.reason if decision.kind == "violation" else "",
        expression=decision.expression.text if decision.expression else "",
        values=decision.values,
        title=policy.text("title"),
        why=policy.text("why"),
        fix=policy.text("fix"),
    )
