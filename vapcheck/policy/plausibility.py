"""What is wrong with policies and objects by their names: kinds, resources and annotations that do not exist.

`reader` checks the form of policies and `compiled_policy` their expressions. This module evaluates no
policies.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator

from vapcheck.manifests.documents import Document
from vapcheck.manifests.objects import mapping_in
from vapcheck.policy.model import ANNOTATION, Policy, Rule
from vapcheck.server import name_forms
from vapcheck.server.admission_view import Doubt, as_admitted
from vapcheck.server.kinds import Kinds

ANNOTATIONS = ("title", "why", "fix", "pod-templates")
"""What the engine reads, after the prefix."""
_KNOWN = ", ".join(ANNOTATIONS)
_OTHERS = ("part-of", "external", "job-field")
"""What others of this project read there."""


def wrong_metadata(document: Document, kinds: Kinds) -> Iterator[tuple[str, str]]:
    """(path, what is wrong) outside of a policy's or a binding's spec, as the API server would find it."""
    doubts: list[Doubt] = []
    as_admitted(document.body, kinds, operation="CREATE", doubts=doubts)
    for doubt in doubts:
        if not doubt.path.startswith("spec"):  # there the reader of policies has a better message
            yield doubt.path, f"{doubt.message}; {doubt.remediation}" if doubt.remediation else doubt.message
    name = mapping_in(document.body, "metadata").get("name")
    if not name:
        yield "metadata.name", "is required"
    elif not isinstance(name, str) or not name_forms.is_subdomain(name):
        yield "metadata.name", f"{name!r} is not a name: {name_forms.SUBDOMAIN}"
    for key, value in mapping_in(document.body, "metadata", "labels").items():
        if not name_forms.is_label_key(key):
            yield f"metadata.labels[{key}]", f"{key!r} is not a label key: {name_forms.LABEL_KEY}"
        if isinstance(value, str) and not name_forms.is_label_value(value):
            said = f"{value!r} is not a label value: at most 63 letters, digits, '-', '_', '.'"
            yield f"metadata.labels[{key}]", said
    for key, value in mapping_in(document.body, "metadata", "annotations").items():
        if not name_forms.is_label_key(key.lower()):
            yield (
                f"metadata.annotations[{key}]",
                f"{key!r} is not an annotation's key: {name_forms.LABEL_KEY}",
            )
        own = str(key).removeprefix(ANNOTATION)
        if not str(key).startswith(ANNOTATION) or own in _OTHERS:
            continue
        path = f"metadata.annotations[{key}]"
        if own not in ANNOTATIONS:
            yield (
                path,
                f"unknown annotation; {meant(own, ANNOTATIONS) or f'known annotations: {_KNOWN}'}",
            )
        elif own == "pod-templates" and value not in ("true", "false"):
            yield path, f'{value!r} is neither "true" nor "false"; quote it'


def unknown_resources(policy: Policy, kinds: Kinds) -> Iterator[tuple[str, str]]:
    """(path, what is wrong) for each rule that no object of any known kind can match.

    Groups of custom resources are left alone: the cluster may have CRDs that are not given.
    """
    builtin = Kinds.builtin(kinds.kubernetes).groups
    for index, rule in enumerate(policy.match.rules):
        if "*" in rule.versions or not all(_is_kubernetes(group, builtin) for group in rule.groups):
            continue
        known = kinds.in_groups(rule.groups)
        plurals = sorted({plural for plural, _ in rule.resources if plural != "*"})
        if not plurals or any(row.plural in plurals and row.version in rule.versions for row in known):
            continue
        path = f"spec.matchConstraints.resourceRules[{index}]"
        if known:
            near = meant(plurals[0], sorted({row.plural for row in known}))
            yield (
                f"{path}.resources",
                f"{_listed(rule, plurals)} does not exist; {near or 'resources are plurals'}",
            )
        else:
            near = meant(min(rule.groups), sorted(builtin))
            yield (
                f"{path}.apiGroups",
                f"unknown group in Kubernetes {kinds.minor}; {near or 'correct it'}",
            )


def unknown_kind(document: Document, kinds: Kinds) -> str | None:
    """What is wrong with the kind of an object whose group is Kubernetes' own; None where nothing is."""
    api_version, kind = str(document.body.get("apiVersion", "")), str(document.body.get("kind", ""))
    group, _, version = api_version.rpartition("/")
    if kinds.resource(api_version, kind) or not _is_kubernetes(group, Kinds.builtin(kinds.kubernetes).groups):
        return None
    rows = list(kinds.in_groups([group]))
    near = meant(kind, sorted({row.kind for row in rows if row.version == version}))
    elsewhere = sorted({row.api_version for row in kinds if row.kind == kind})
    remediation = near or (
        f"{kind} is in {', '.join(elsewhere)}" if elsewhere else "correct apiVersion and kind"
    )
    return f"there is no {kind} in {api_version} of Kubernetes {kinds.minor}; {remediation}"


def meant(word: str, known: Iterable[str]) -> str:
    """`did you mean x?`, or nothing."""
    close = difflib.get_close_matches(word, list(known), 1, 0.7)
    return f"did you mean {close[0]!r}?" if close else ""


def _is_kubernetes(group: str, builtin: frozenset[str]) -> bool:
    """Whether only Kubernetes itself can have the group: that of a CRD has a dot."""
    return group in builtin or ("." not in group and group != "*")


def _listed(rule: Rule, plurals: list[str]) -> str:
    groups = ", ".join(sorted(group or "core" for group in rule.groups))
    return f"{', '.join(plurals)} of {groups}/{', '.join(sorted(rule.versions))}"
