"""What objects name exists: priorities, accounts, roles, configurations, Secrets, node classes, policies.

One function per kind of thing that is named. Secrets apart from the rest, since they are seldom in files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from gpupool.policy.rules.bundle import BundleObject, ObjectSet, Pod
from gpupool.policy.rules.fields import at, items, labels, text
from gpupool.policy.rules.rule import RuleViolation
from vapcheck import read_selector

_TENANT_LABEL = "gpupool.dev/tenant"
_SECRET_MAKERS = {
    "ExternalSecret": ("spec", "target", "name"),
    "SealedSecret": ("spec", "template", "metadata", "name"),
    "Certificate": ("spec", "secretName"),
}
"""Kinds whose controllers make Secrets, and where the Secret's name is; the object's own name otherwise
(external-secrets v1, sealed-secrets v1alpha1, cert-manager v1)."""
_HINTS = 20
"""Missing names that are compared with those there are: it costs a millisecond each, and where more are
missing, it isn't for their spelling."""
_NEAR = 200
"""Names that each of them is compared with at most."""
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")


@dataclass(frozen=True, slots=True)
class Reference:
    """One object that is named by another."""

    by: BundleObject
    path: str
    kind: str
    name: str
    namespace: str = ""


def missing(bundle: ObjectSet, references: Iterable[Reference]) -> Iterator[RuleViolation]:
    """A finding for each reference to what does not exist. Each missing name is reported once per object."""
    reported = set[tuple[int, str, str, str]]()
    hints = dict[tuple[str, str, str], str]()
    for reference in references:
        key = (id(reference.by), reference.kind, reference.namespace, reference.name)
        if key in reported or bundle.exists(reference.kind, reference.name, reference.namespace):
            continue
        reported.add(key)
        where = f"{reference.namespace}/" if reference.namespace else ""
        identity = key[1:]
        if identity not in hints:
            hints[identity] = _near(bundle, reference) if len(hints) < _HINTS else ""
        message = f"{reference.kind} {where}{reference.name} does not exist{hints[identity]}"
        yield RuleViolation(message, reference.by, reference.path, {"missing": f"{where}{reference.name}"})


def _near(bundle: ObjectSet, reference: Reference) -> str:
    """What the name may have been meant to be, as the end of a message."""
    known = bundle.names(reference.kind, reference.namespace)[:_NEAR]
    near = get_close_matches(reference.name, known, 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _exist(
    named: Callable[[ObjectSet], Iterable[Reference]],
) -> Callable[[ObjectSet], Iterator[RuleViolation]]:
    """The check that everything that objects of a bundle name in this way exists."""
    return lambda bundle: missing(bundle, named(bundle))


def namespaces(bundle: ObjectSet) -> Iterator[RuleViolation]:
    """Once for each namespace: the first object in it, and how many there are."""
    inside: dict[str, list[BundleObject]] = {}
    for item in bundle.objects:
        if item.namespace and not item.patch:
            inside.setdefault(item.namespace, []).append(item)
    for namespace, found in inside.items():
        if not bundle.exists("Namespace", namespace):
            more = f", and {len(found) - 1} more objects are in it" if len(found) > 1 else ""
            message = f"nothing creates namespace {namespace!r}{more}"
            yield RuleViolation(message, found[0], "metadata.namespace", {"objects": len(found)})
    for release in bundle.releases:
        if not bundle.exists("Namespace", release.namespace) and release.namespace not in inside:
            message = f"nothing creates namespace {release.namespace!r}"
            yield RuleViolation(message, release, "namespace")


@_exist
def priorities(bundle: ObjectSet) -> Iterator[Reference]:
    for pod in bundle.pods:
        name = text(pod.spec, "priorityClassName")
        if name:
            yield Reference(pod.owner, f"{pod.path}.priorityClassName", "PriorityClass", name)
    for quota in bundle.of_kind("ResourceQuota"):
        path = "spec.scopeSelector.matchExpressions"
        for index, row in enumerate(items(quota.body, *path.split("."))):
            if text(row, "scopeName") == "PriorityClass":
                for position, name in enumerate(items(row, "values")):
                    yield Reference(quota, f"{path}[{index}].values[{position}]", "PriorityClass", str(name))


@_exist
def accounts(bundle: ObjectSet) -> Iterator[Reference]:
    """Accounts that pods run as, roles that are bound, and subjects in namespaces that the bundle makes for
    itself: tenants create their own accounts, and accounts beside a Helm release may belong to it."""
    for pod in bundle.pods:
        name = text(pod.spec, "serviceAccountName")
        if name and not _installed_to(bundle, pod.owner.namespace):
            path = f"{pod.path}.serviceAccountName"
            yield Reference(pod.owner, path, "ServiceAccount", name, pod.owner.namespace)
    for binding in bundle.of_kind("RoleBinding", "ClusterRoleBinding"):
        kind, name = text(binding.body, "roleRef", "kind"), text(binding.body, "roleRef", "name")
        if kind and name:
            where = binding.namespace if kind == "Role" else ""
            yield Reference(binding, "roleRef.name", kind, name, where)
        for index, subject in enumerate(items(binding.body, "subjects")):
            where = text(subject, "namespace") or binding.namespace
            if text(subject, "kind") == "ServiceAccount" and _makes_accounts(bundle, where):
                path = f"subjects[{index}].name"
                yield Reference(binding, path, "ServiceAccount", text(subject, "name"), where)


def _makes_accounts(bundle: ObjectSet, namespace: str) -> bool:
    own = bundle.find("Namespace", namespace)
    return own is not None and _TENANT_LABEL not in own.labels and not _installed_to(bundle, namespace)


def _installed_to(bundle: ObjectSet, namespace: str) -> bool:
    return any(release.namespace == namespace for release in bundle.releases)


def configs(bundle: ObjectSet) -> Iterator[RuleViolation]:
    yield from missing(bundle, _contents(bundle, "ConfigMap"))
    yield from _keys(bundle)


def secrets(bundle: ObjectSet) -> Iterator[RuleViolation]:
    made = {
        (item.namespace, text(item.body, *path) or item.name)
        for kind, path in _SECRET_MAKERS.items()
        for item in bundle.of_kind(kind)
    }
    references = (
        reference
        for reference in _contents(bundle, "Secret")
        if (reference.namespace, reference.name) not in made
    )
    yield from missing(bundle, references)


def _contents(bundle: ObjectSet, kind: str) -> Iterator[Reference]:
    """ConfigMaps or Secrets that pods can't start without."""
    for pod in bundle.pods:
        for path, name, _ in _named(pod, kind):
            if not _installed_to(bundle, pod.owner.namespace):
                yield Reference(pod.owner, f"{pod.path}.{path}", kind, name, pod.owner.namespace)


def _keys(bundle: ObjectSet) -> Iterator[RuleViolation]:
    """Keys of ConfigMaps that are in the bundle but lack them."""
    held = {
        item.identity: {**labels(item.body, "data"), **labels(item.body, "binaryData")}
        for item in bundle.of_kind("ConfigMap")
    }
    for pod in bundle.pods:
        for path, name, key in _named(pod, "ConfigMap"):
            data = held.get(("ConfigMap", pod.owner.namespace, name))
            if key and data is not None and key not in data:
                message = f"ConfigMap {pod.owner.namespace}/{name} has no key {key!r}"
                yield RuleViolation(message, pod.owner, f"{pod.path}.{path}", {"keys": sorted(data)})


def _named(pod: Pod, kind: str) -> Iterator[tuple[str, str, str]]:
    """Path, name and key of each ConfigMap or Secret; optional ones are left out."""
    fields = ("configMapRef", "configMapKeyRef") if kind == "ConfigMap" else ("secretRef", "secretKeyRef")
    for group in _CONTAINERS:
        for index, container in enumerate(items(pod.spec, group)):
            for position, source in enumerate(items(container, "envFrom")):
                path = f"{group}[{index}].envFrom[{position}].{fields[0]}"
                yield from _one(path, at(source, fields[0]), "name")
            for position, variable in enumerate(items(container, "env")):
                path = f"{group}[{index}].env[{position}].valueFrom.{fields[1]}"
                yield from _one(path, at(variable, "valueFrom", fields[1]), "name")
    source, name = ("configMap", "name") if kind == "ConfigMap" else ("secret", "secretName")
    for index, volume in enumerate(items(pod.spec, "volumes")):
        yield from _one(f"volumes[{index}].{source}", at(volume, source), name)
        for position, part in enumerate(items(volume, "projected", "sources")):
            path = f"volumes[{index}].projected.sources[{position}].{source}"
            yield from _one(path, at(part, source), "name")
    if kind == "Secret":
        for index, entry in enumerate(items(pod.spec, "imagePullSecrets")):
            yield from _one(f"imagePullSecrets[{index}]", entry, "name")


def _one(path: str, source: Any, field: str) -> Iterator[tuple[str, str, str]]:
    name = text(source, field)
    if name and at(source, "optional") is not True:
        yield f"{path}.{field}", name, text(source, "key")


@_exist
def node_classes(bundle: ObjectSet) -> Iterator[Reference]:
    for pool in bundle.of_kind("NodePool"):
        named = at(pool.body, "spec", "template", "spec", "nodeClassRef")
        if text(named, "kind") and text(named, "name"):
            path = "spec.template.spec.nodeClassRef.name"
            yield Reference(pool, path, text(named, "kind"), text(named, "name"))
    for overlay in bundle.of_kind("NodeOverlay"):
        for index, row in enumerate(items(overlay.body, "spec", "requirements")):
            if text(row, "key") == "karpenter.sh/nodepool" and text(row, "operator") == "In":
                for position, name in enumerate(items(row, "values")):
                    path = f"spec.requirements[{index}].values[{position}]"
                    yield Reference(overlay, path, "NodePool", str(name))


@_exist
def admission(bundle: ObjectSet) -> Iterator[Reference]:
    """Policies that bindings put into force, and the parameters that they are given by name."""
    kinds = {
        item.name: text(item.body, "spec", "paramKind", "kind")
        for item in bundle.of_kind("ValidatingAdmissionPolicy")
    }
    for binding in bundle.of_kind("ValidatingAdmissionPolicyBinding"):
        policy = text(binding.body, "spec", "policyName")
        if policy:
            yield Reference(binding, "spec.policyName", "ValidatingAdmissionPolicy", policy)
        params = at(binding.body, "spec", "paramRef")
        kind, name = kinds.get(policy, ""), text(params, "name")
        # Without a namespace the parameter is looked for beside each object that is judged.
        if kind and name and (where := text(params, "namespace")):
            yield Reference(binding, "spec.paramRef.name", kind, name, where)


def selectors(bundle: ObjectSet) -> Iterator[RuleViolation]:
    """Selectors of pods that choose none in their namespace."""
    here: dict[str, list[Pod]] = {}
    for pod in bundle.pods:
        here.setdefault(pod.owner.namespace, []).append(pod)
    for kind, path in (("NetworkPolicy", "podSelector"), ("PodDisruptionBudget", "selector")):
        for item in bundle.of_kind(kind):
            yield from _matched(item, f"spec.{path}", at(item.body, "spec", path), here)
    for service in bundle.of_kind("Service"):
        chosen = labels(service.body, "spec", "selector")
        yield from _matched(service, "spec.selector", {"matchLabels": dict(chosen)}, here)


def _matched(item: BundleObject, path: str, body: Any, here: dict[str, list[Pod]]) -> Iterator[RuleViolation]:
    selector, problems = read_selector(body)
    if problems or not selector.requirements:
        return
    pods = here.get(item.namespace, [])
    if not any(selector.matches(pod.labels) for pod in pods):
        message = f"selects none of the {len(pods)} pods in namespace {item.namespace or 'default'!r}"
        yield RuleViolation(message, item, path, {"selector": body})
