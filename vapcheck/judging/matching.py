"""Whether a policy or a binding applies to a request.

Rules after `admission/plugin/policy/matching` of the API server 1.36. It must not evaluate CEL: match
conditions come later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vapcheck.judging.request import Request
from vapcheck.manifests.objects import mapping_in
from vapcheck.policy.model import BINDING, GROUP, POLICY, MatchResources, Rule
from vapcheck.policy.selectors import Selector
from vapcheck.server.kinds import Kinds, Resource

NAME_LABEL = "kubernetes.io/metadata.name"
"""The label that the server gives every namespace: its name."""
_EXEMPT = {
    POLICY,
    BINDING,
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
}


def is_exempt(resource: Resource) -> bool:
    """Whether the object is exempt from all policies: the admission configuration itself, so that it can be
    repaired."""
    return resource.group == GROUP and resource.kind in _EXEMPT


def asks_labels(selector: Selector, namespace: str) -> bool:
    """Whether the answer of a namespaceSelector depends on more than the name of this namespace."""
    by_name = {NAME_LABEL: namespace}
    own = [requirement for requirement in selector.requirements if requirement.key == NAME_LABEL]
    return len(own) < len(selector.requirements) and Selector(tuple(own)).matches(by_name)


class Matcher:
    """Finds out which criteria apply to requests."""

    def __init__(self, kinds: Kinds, namespaces: Mapping[str, Mapping[str, str]]) -> None:
        """`namespaces`: labels by namespace name. One that isn't there has the label that all have."""
        self._kinds = kinds
        self._namespaces = namespaces
        # By the criteria's identity, which the policies keep alive, and by the fields that rules without
        # names read.
        self._by_kind: dict[tuple[int, str], Resource | None] = {}

    def match(self, criteria: MatchResources, request: Request) -> Resource | None:
        """The resource as which the request matches, or None."""
        if criteria.selects and not (
            _in_namespace(criteria, request, self._namespaces) and _labels_match(criteria, request)
        ):
            return None
        if criteria.names_objects:
            return self._by_rules(criteria, request)
        key = (id(criteria), request.kind)
        if key not in self._by_kind:
            self._by_kind[key] = self._by_rules(criteria, request)
        return self._by_kind[key]

    def may_match(self, criteria: MatchResources, request: Request) -> bool:
        """Whether any request of this kind can match, whatever the object's name and labels."""
        return criteria.names_objects or self._by_rules(criteria, request) is not None

    def _by_rules(self, criteria: MatchResources, request: Request) -> Resource | None:
        if _matching_rule(criteria.exclude, criteria.equivalent, request, self._kinds):
            return None
        if not criteria.rules:
            return request.resource
        return _matching_rule(criteria.rules, criteria.equivalent, request, self._kinds)


def _in_namespace(
    criteria: MatchResources, request: Request, namespaces: Mapping[str, Mapping[str, str]]
) -> bool:
    selector = criteria.namespace_selector
    if not selector.requirements:
        return True
    if request.is_namespace and request.object is not None and not request.subresource:
        return selector.matches(_labels(request.object))
    if not request.namespace:
        return True  # a cluster-scoped object other than a namespace is never exempt
    default = {NAME_LABEL: request.namespace}
    return selector.matches(namespaces.get(request.namespace, default))


def _labels_match(criteria: MatchResources, request: Request) -> bool:
    """Either of the old and the new object is enough."""
    selector = criteria.object_selector
    if not selector.requirements:
        return True
    bodies = [body for body in (request.object, request.old_object) if body is not None]
    return any(selector.matches(_labels(body)) for body in bodies)


def _labels(body: Mapping[str, Any]) -> Mapping[str, str]:
    labels = mapping_in(body, "metadata", "labels")
    # What is no text no server can read, which is reported elsewhere.
    return labels if all(isinstance(value, str) for value in labels.values()) else {}


def _matching_rule(
    rules: tuple[Rule, ...], equivalent: bool, request: Request, kinds: Kinds
) -> Resource | None:
    for rule in rules:
        if _rule_matches(rule, request, request.resource):
            return request.resource
    if equivalent and rules:
        others = [other for other in kinds.same(request.resource) if other != request.resource]
        for rule in rules:
            for other in others:
                if _rule_matches(rule, request, other):
                    return other
    return None


def _rule_matches(rule: Rule, request: Request, resource: Resource) -> bool:
    if not _one_of(rule.operations, request.operation):
        return False
    if not _one_of(rule.groups, resource.group) or not _one_of(rule.versions, resource.version):
        return False
    if not any(
        plural in ("*", resource.plural) and subresource in ("*", request.subresource)
        for plural, subresource in rule.resources
    ):
        return False
    if rule.scope != "*":
        namespaced = bool(request.namespace) and not request.is_namespace
        if namespaced != (rule.scope == "Namespaced"):
            return False
    return not rule.resource_names or request.name in rule.resource_names


def _one_of(accepted: frozenset[str], value: str) -> bool:
    return value in accepted or "*" in accepted
