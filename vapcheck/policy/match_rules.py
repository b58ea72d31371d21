"""Reads what a policy or a binding applies to: matchConstraints, matchResources and their rules.

Refuses what the API server refuses (`pkg/apis/admissionregistration/validation` of Kubernetes 1.36). Whether
a rule applies to a request is for `matching`, whether it names something that exists for `plausibility`.
"""

from __future__ import annotations

from typing import Any

from vapcheck.policy.fields import FieldReader
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


def read_match(
    reader: FieldReader, spec: dict[str, Any], key: str, *, needs_rules: bool = False
) -> MatchResources:
    """The criteria at `key` of a spec. A policy needs rules; a binding without any applies wherever its
    policy does."""
    path = f"spec.{key}"
    fields = reader.mapping(spec, key, path, _FIELDS, required=needs_rules)
    policy = reader.choice(
        fields, "matchPolicy", f"{path}.matchPolicy", ("Equivalent", "Exact"), "Equivalent"
    )
    rules = _rules(reader, fields, "resourceRules", path)
    if needs_rules and isinstance(spec.get(key), dict) and not rules:
        reader.say(f"{path}.resourceRules", "at least one rule is needed")
    return MatchResources(
        rules=rules,
        exclude=_rules(reader, fields, "excludeResourceRules", path),
        namespace_selector=selector(reader, fields, "namespaceSelector", path),
        object_selector=selector(reader, fields, "objectSelector", path),
        equivalent=policy == "Equivalent",
    )


def selector(reader: FieldReader, parent: dict[str, Any], key: str, path: str) -> Selector:
    """The label selector at `key`; without one, that of everything."""
    found, problems = read_selector(parent.get(key))
    for inside, message in problems:
        reader.say(".".join(part for part in (path, key, inside) if part), message)
    return found


def _rules(reader: FieldReader, parent: dict[str, Any], key: str, path: str) -> tuple[Rule, ...]:
    return tuple(
        _rule(reader, row, f"{path}.{key}[{index}]")
        for index, row in enumerate(reader.rows(parent, key, f"{path}.{key}"))
    )


def _rule(reader: FieldReader, row: Any, place: str) -> Rule:
    fields = reader.mapping({"row": row}, "row", place, _RULE_FIELDS, required=True)
    operations = reader.texts(fields, "operations", f"{place}.operations", _OPERATIONS)
    groups = reader.texts(fields, "apiGroups", f"{place}.apiGroups")
    versions = reader.texts(fields, "apiVersions", f"{place}.apiVersions")
    resources = reader.texts(fields, "resources", f"{place}.resources")
    for name, values in (
        ("operations", operations),
        ("apiGroups", groups),
        ("apiVersions", versions),
        ("resources", resources),
    ):
        if not values:
            reader.say(f"{place}.{name}", "at least one item is needed")
        if name != "resources" and len(values) > 1 and "*" in values:
            reader.say(f"{place}.{name}", "beside '*' nothing else may be given")
    if "" in versions:
        reader.say(
            f"{place}.apiVersions[{versions.index('')}]", "must not be empty; write a version, as in v1"
        )
    _judge_resources(reader, resources, f"{place}.resources")
    names = reader.texts(fields, "resourceNames", f"{place}.resourceNames", unique=True)
    for index, name in enumerate(names):
        if not is_path_segment(name):
            said = f"{name!r} is not an object's name: neither '.' nor '..', without '/' and '%'"
            reader.say(f"{place}.resourceNames[{index}]", said)
    return Rule(
        operations=frozenset(operations),
        groups=frozenset(groups),
        versions=frozenset(versions),
        resources=tuple((res, sub) for res, _, sub in (item.partition("/") for item in resources)),
        scope=reader.choice(fields, "scope", f"{place}.scope", ("*", "Cluster", "Namespaced"), "*"),
        resource_names=frozenset(names),
    )


def _judge_resources(reader: FieldReader, resources: tuple[str, ...], path: str) -> None:
    """As the server does, which checks only the wildcards before an item: `pods/*` beside `pods/status` is
    refused in this order and taken in the other; of '*' and `pods` the order matters too."""
    every_subresource: set[str] = set()
    every_resource: set[str] = set()
    plain = False
    for index, item in enumerate(resources):
        resource, slash, subresource = item.partition("/")
        if item == "":
            reader.say(f"{path}[{index}]", "must not be empty; write a resource, as in pods")
        elif not slash:
            plain = item != "*"
        elif resource in every_subresource or subresource in every_resource:
            wider = f"{resource}/*" if resource in every_subresource else f"*/{subresource}"
            reader.say(f"{path}[{index}]", f"{item!r} is part of {wider!r} already; take it out")
        if slash and subresource == "*":
            every_subresource.add(resource)
        if slash and resource == "*":
            every_resource.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        reader.say(path, "beside '*/*' nothing else may be given")
    if "*" in resources and plain:
        reader.say(path, "beside '*' no resource without subresource may be given")
