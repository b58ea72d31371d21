"""Judges objects by policies, as the API server's dispatcher does.

    requests of one object  x  policies that match  x  bindings that match  x  parameters  ->  findings

After `admission/plugin/policy/validating/dispatcher.go` of the API server 1.36. The server answers with the
first denial; this reports every one. It reads no files and prints nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from vapcheck.cel.libraries.authorization import Attributes, Authorizer, ResourceCheck
from vapcheck.cel.program import Scope
from vapcheck.judging.context_objects import ContextObjects, doubtful
from vapcheck.judging.decision_findings import config_level, finding_of, level_of, not_judged
from vapcheck.judging.evaluation import Evaluation, PolicyDecision
from vapcheck.judging.matching import Matcher, asks_labels, is_exempt
from vapcheck.judging.request import Request, User
from vapcheck.judging.tally import Reach, Tally, UnseenNamespace
from vapcheck.manifests.documents import Document
from vapcheck.outcome import PolicyFinding
from vapcheck.policy.model import Binding
from vapcheck.policy.parameters import GIVE_THE_CRD, ParameterError, Parameters
from vapcheck.policy.plausibility import unknown_kind
from vapcheck.policy.policy_set import BoundPolicy, PolicySet, engine_finding
from vapcheck.server.admission_view import Doubt, as_admitted, pod_templates
from vapcheck.server.kinds import Kinds, Resource, namespace_of, resource_of
from vapcheck.server.subresources import subresource_of

Body = dict[str, Any]


class Judge:
    """Policies with everything that they can read besides the object: parameters, namespaces, RBAC."""

    def __init__(self, policies: PolicySet, context: Iterable[Document], kinds: Kinds) -> None:
        self._policies = policies.policies
        self._kinds = kinds
        documents = list(context)
        self.context = ContextObjects(documents, kinds)
        self._parameters = Parameters([document.body for document in documents], kinds)
        namespaces = self.context.namespaces
        labels = {name: body["metadata"].get("labels") or {} for name, body in namespaces.items()}
        self._matcher = Matcher(kinds, labels)
        self._candidates: dict[Hashable, list[BoundPolicy]] = {}
        """Policies that may match requests of a kind, by the list of policies asked about and the kind."""
        self._for_templates = [b for b in self._policies if b.compiled.policy.judges_pod_templates]
        """Policies that are also applied to the pods that an object leads to."""
        self._noted: set[tuple[str, str]] = set()
        """Namespaces that are not given, and kinds of requests in them, for which `_note_unseen` is done."""
        self.tally = self.new_tally()
        """What was counted so far."""

    def new_tally(self) -> Tally:
        """A tally of these policies in which nothing is counted yet."""
        return Tally.of(bound.compiled.policy.name for bound in self._policies)

    def judge(
        self,
        document: Document,
        *,
        operation: str = "CREATE",
        old: Mapping[str, Any] | None = None,
        user: User = User(),  # noqa: B008  (immutable)
        subresource: str = "",
        options: Mapping[str, Any] | None = None,
        templates: bool = True,
    ) -> list[PolicyFinding]:
        """Every finding about one object. An error while judging it is a finding too, never a silent pass.

        With a `subresource`, as pods/exec, the operation follows from it, and objects without that
        subresource have no findings. `old` is the object as it was, for UPDATE and DELETE; without it UPDATE
        compares the object with itself, and DELETE takes the document for the old object. `options` are
        fields of `request.options`. Without `templates`, the pods that the object will lead to are not judged
        with it.
        """
        findings: list[PolicyFinding] = []
        try:
            if subresource:
                findings.extend(self._of_subresource(document, subresource, old, user))
            else:
                findings.extend(self._of_object(document, operation, old, user, options or {}, templates))
        except Exception as error:  # a defect of this engine, which must not cost the other objects' findings
            findings.append(not_judged(document, error))
        return findings

    def _of_object(
        self,
        document: Document,
        operation: str,
        old: Mapping[str, Any] | None,
        user: User,
        options: Mapping[str, Any],
        templates: bool,
    ) -> Iterator[PolicyFinding]:
        resource = resource_of(document.body, self._kinds)
        wrong_kind = unknown_kind(document, self._kinds)
        if wrong_kind:
            yield replace(engine_finding("unknown-kind", document, "kind", wrong_kind), origin="document")
            return
        doubts: list[Doubt] = []
        request = self._request(document.body, resource, operation, old, user, doubts, options)
        yield from (doubtful(doubt, document) for doubt in doubts)
        if is_exempt(resource):
            return
        yield from self._judge_request(request, document, "", self._policies)
        if templates and self._for_templates and operation != "DELETE":
            pods = self._kinds.resource("v1", "Pod")
            assert pods is not None
            known = self._kinds.schema(resource.api_version, resource.kind) is not None
            for path, pod in pod_templates(document.body):
                # The templates of a known kind were checked with the object, above.
                doubts = []
                inner = self._request(pod, pods, "CREATE", None, user, None if known else doubts)
                yield from (
                    doubtful(replace(doubt, path=f"{path}.{doubt.path}"), document) for doubt in doubts
                )
                yield from self._judge_request(inner, document, path, self._for_templates)

    def _of_subresource(
        self, document: Document, asked: str, old: Mapping[str, Any] | None, user: User
    ) -> list[PolicyFinding]:
        subresource = subresource_of(document.body, asked, self._kinds)
        if subresource is None:
            return []
        body, before = subresource.object_of(document.body), subresource.object_of(dict(old)) if old else None
        operation = subresource.operation
        # CONNECT has no old object, as CREATE. What it and CREATE of a subresource send is not stored, so the
        # server adds no defaults.
        request = self._request(
            body, subresource.parent, operation.replace("CONNECT", "CREATE"), before, user
        )
        if operation != "UPDATE":
            request = replace(request, operation=operation, object=subresource.sent(body))
        request = replace(request, subresource=subresource.name, own_kind=subresource.own_kind)
        return self._judge_request(request, document, "", self._policies)

    def _request(
        self,
        body: Body,
        resource: Resource,
        operation: str,
        old: Mapping[str, Any] | None,
        user: User,
        doubts: list[Doubt] | None = None,
        options: Mapping[str, Any] = MappingProxyType({}),
    ) -> Request:
        """The request as admission sees it; what is uncertain about the new object is added to `doubts`."""
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
        return Request(operation, resource, name, namespace, new, before, user, options=options)

    def _judge_request(
        self, request: Request, document: Document, path: str, policies: Sequence[BoundPolicy]
    ) -> list[PolicyFinding]:
        """What these policies find; `path` leads to the part of the document that the request is about."""
        findings: list[PolicyFinding] = []
        scopes: dict[str, Scope] = {}  # by the apiVersion as which the object matched
        own = request.resource
        for bound, matched, bindings in self._in_force(request, document, policies):
            policy = bound.compiled.policy
            broken = self._parameters.unknown_kind(policy)
            if broken:
                self.tally.matched[policy.name] += 1
                decision, level = PolicyDecision("error", broken), config_level(policy)
                finding = finding_of(policy, None, decision, level, document, path)
                findings.append(replace(finding, remediation=GIVE_THE_CRD))
                continue
            version = matched.api_version
            if version not in scopes and bindings:
                scopes[version] = self._scope(request, matched)
            applied = False  # until a binding is broken, or its match conditions hold for a parameter
            for binding in bindings:
                scope = scopes[version]
                try:
                    if own != matched and not own.alike_in_versions:  # the server would convert the object
                        raise ParameterError(_unconverted(own, matched))
                    parameters = self._parameters.of(policy, binding, request.namespace)
                except ParameterError as error:
                    applied = True
                    decision = PolicyDecision("error", f"failed to configure binding: {error}")
                    finding = finding_of(policy, binding, decision, config_level(policy), document, path)
                    findings.append(replace(finding, remediation=error.remediation or finding.remediation))
                    continue
                if not parameters:
                    self.tally.unparameterised[policy.name] = binding.name
                for parameter in parameters:
                    values = scope.with_values({"params": parameter}) if policy.param_kind else scope
                    evaluation = Evaluation(bound.compiled, values)
                    decisions = evaluation.verdict()
                    self.tally.evaluations += evaluation.evaluated
                    applied = applied or decisions is not None
                    for decision in decisions or ():
                        level = level_of(policy, binding, decision)
                        findings.append(finding_of(policy, binding, decision, level, document, path))
            self.tally.matched[policy.name] += applied
            if not applied:
                self.tally.reach(policy.name, Reach.CONDITIONS if bindings else Reach.BINDINGS)
        return findings

    def _in_force(
        self, request: Request, document: Document, policies: Sequence[BoundPolicy]
    ) -> Iterator[tuple[BoundPolicy, Resource, list[Binding]]]:
        """Each policy that matches, the resource as which the request does, and the bindings that match."""
        # The identity is a safe key: `_policies` and `_for_templates` live as long as the judge.
        key = (id(policies), request.kind)
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
        """Note that a kind is not known, and was taken for namespaced."""
        own = request.resource
        if self._kinds.resource(own.api_version, own.kind) is None and not namespace_of(document.body):
            self.tally.assumed.setdefault((own.api_version, own.kind), (document.file, document.line))

    def _note_unseen(self, request: Request, document: Document, candidates: Sequence[BoundPolicy]) -> None:
        """Note what policies look up in a namespace that is not given, once for each kind of request."""
        name = request.namespace
        if (
            not name
            or request.is_namespace
            or name in self.context.namespaces
            or (name, request.kind) in self._noted
        ):
            return
        self._noted.add((name, request.kind))
        for bound in candidates:
            policy = bound.compiled.policy
            by_policy = asks_labels(policy.match.namespace_selector, name)
            selecting = {
                b.name for b in bound.bindings if by_policy or asks_labels(b.match.namespace_selector, name)
            }
            reading = {policy.name} if bound.compiled.reads_namespace else set()
            if selecting or reading:
                unseen = self.tally.unseen.setdefault(name, UnseenNamespace(document.file, document.line))
                unseen.selecting |= selecting
                unseen.reading |= reading

    def _scope(self, request: Request, matched: Resource) -> Scope:
        """What expressions see of a request that matched as this resource."""

        def converted(body: Body | None) -> Body | None:
            if body is None or matched == request.resource:
                return body
            return {**body, "apiVersion": matched.api_version}

        namespace = None
        if request.namespace and not request.is_namespace:
            namespace = self.context.namespace(request.namespace)
        own, user = request.resource, request.user
        asked = Attributes(
            user.name,
            user.groups,
            group=own.group,
            resource=own.plural,
            subresource=request.subresource,
            namespace=request.namespace,
            name=request.name,
        )
        return Scope(
            {
                "object": converted(request.object),
                "oldObject": converted(request.old_object),
                "namespaceObject": namespace,
                "request": request.as_cel(matched),
                "authorizer": Authorizer(self.context.rbac, Attributes(user.name, user.groups)),
                "authorizer.requestResource": ResourceCheck(self.context.rbac, asked),
            }
        )


def _unconverted(own: Resource, wanted: Resource) -> str:
    """The message for an object that the server would convert to the version that the rule names."""
    return (
        f"can't be evaluated offline: the policy's rule names {wanted.api_version} {wanted.kind}, the "
        f"object is {own.api_version}; write it as {wanted.api_version}, or also name {own.version} in the "
        "rule"
    )
