"""Reads what a policy or a binding applies to: matchConstraints, matchResources and their rules.

Refuses what the API server refuses (`pkg/apis/admissionregistration/validation` of Kubernetes 1.36). Whether
a rule applies to a request is for `matching`, whether it names something that exists for `plausibility`.
"""

from __future__ import annotations

from vapcheck.policy.fields import Fields
from vapcheck.policy.model import MatchResources, Rule
from vapcheck.policy.selectors import Selector, read_selector
from vapcheck.server.name_forms import is_path_segment

_OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT", "*")
_FIELDS = (
    "resourceRules",
    "excludeResourceRules",
    "namespaceSelector",
    "objectSelector",
    "matchPolicy",
)
_RULE_FIELDS = ("operations", "apiGroups", "apiVersions", "resources", "scope", "resourceNames")


def read_match(spec: Fields, key: str, *, needs_rules: bool = False) -> MatchResources:
    """The criteria at `key` of a spec. A policy needs rules; a binding without any applies wherever its
    policy does."""
    fields = spec.mapping(key, _FIELDS, required=needs_rules)
    policy = fields.choice("matchPolicy", ("Equivalent", "Exact"), "Equivalent")
    rules = tuple(map(_rule, fields.rows("resourceRules", _RULE_FIELDS)))
    if needs_rules and isinstance(spec.values.get(key), dict) and not rules:
        fields.say("resourceRules", "at least one rule is needed")
    return MatchResources(
        rules=rules,
        exclude=tuple(map(_rule, fields.rows("excludeResourceRules", _RULE_FIELDS))),
        namespace_selector=selector(fields, "namespaceSelector"),
        object_selector=selector(fields, "objectSelector"),
        equivalent=policy == "Equivalent",
    )


def selector(parent: Fields, key: str) -> Selector:
    """The label selector at `key`; without one, that of everything."""
    found, problems = read_selector(parent.values.get(key))
    for inside, message in problems:
        parent.say(f"{key}.{inside}" if inside else key, message)
    return found


def _rule(fields: Fields) -> Rule:
    operations = fields.texts("operations", _OPERATIONS)
    groups, versions = fields.texts("apiGroups"), fields.texts("apiVersions")
    resources = fields.texts("resources")
    for name, values in (
        ("operations", operations),
        ("apiGroups", groups),
        ("apiVersions", versions),
        ("resources", resources),
    ):
        if not values:
            fields.say(name, "at least one item is needed")
        if name != "resources" and len(values) > 1 and "*" in values:
            fields.say(name, "beside '*' nothing else may be given")
    if "" in versions:
        fields.say(f"apiVersions[{versions.index('')}]", "must not be empty; write a version, such as v1")
    _judge_resources(fields, resources)
    names = fields.texts("resourceNames", unique=True)
    for index, name in enumerate(names):
        judge_object_name(fields, f"resourceNames[{index}]", name)
    return Rule(
        operations=frozenset(operations),
        groups=frozenset(groups),
        versions=frozenset(versions),
        resources=tuple((res, sub) for res, _, sub in (item.partition("/") for item in resources)),
        scope=fields.choice("scope", ("*", "Cluster", "Namespaced"), "*"),
        resource_names=frozenset(names),
    )


def judge_object_name(fields: Fields, key: str, name: str) -> None:
    """Note a name that no object can have."""
    if not is_path_segment(name):
        fields.say(key, f"{name!r} is not an object's name: neither '.' nor '..', without '/' and '%'")


def _judge_resources(fields: Fields, resources: tuple[str, ...]) -> None:
    """As the server does, which checks only the wildcards before an item: `pods/*` beside `pods/status` is
    refused in this order and taken in the other; of '*' and `pods` the order matters too."""
    every_subresource: set[str] = set()
    every_resource: set[str] = set()
    plain = False
    for index, item in enumerate(resources):
        resource, slash, subresource = item.partition("/")
        if item == "":
            fields.say(f"resources[{index}]", "must not be empty; write a resource, such as pods")
        elif not slash:
            plain = item != "*"
        elif resource in every_subresource or subresource in every_resource:
            wider = f"{resource}/*" if resource in every_subresource else f"*/{subresource}"
            fields.say(f"resources[{index}]", f"{item!r} is already part of {wider!r}; remove it")
        if slash and subresource == "*":
            every_subresource.add(resource)
        if slash and resource == "*":
            every_resource.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        fields.say("resources", "beside '*/*' nothing else may be given")
    if "*" in resources and plain:
        fields.say("resources", "beside '*' no resource without subresource may be given")
