"""Every object of the file is in the cluster as the file has it, and there are no others of ours.

Ours are objects that carry our labels for this environment, or that were applied under our name. The
kind decides the layer: quotas belong to tenants, overlays to Karpenter, and so on. `nodes` checks nodes that
existed before, and `releases` checks charts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpupool.environment.plan.model import ENVIRONMENT_LABEL
from gpupool.findings import Category
from gpupool.generators.delivery import delivering, keeps
from gpupool.generators.manifest import Manifest
from gpupool.generators.metadata import TENANT_LABEL
from gpupool.live.cluster.live_objects import OPERANDS, config_name
from gpupool.live.cluster.snapshot import Object, labels
from gpupool.live.drift import repair
from gpupool.live.drift.ages import is_being_deleted
from gpupool.live.drift.drift import Drift
from gpupool.live.drift.drift_input import DriftInput
from gpupool.live.drift.meaning import consequence, layer_of
from gpupool.live.objects.changes import MISSING, Change, format_path
from gpupool.live.objects.field_changes import FieldChange
from gpupool.live.objects.live import SETS, differences
from gpupool.live.objects.managed_fields import appliers, managers
from gpupool.live.objects.owner import FIELD_MANAGER, environment_of, made_by_up
from gpupool.live.objects.ownership import Ownership

_NOT_OURS = frozenset({"Node", "Pod", "NodeClaim", "DaemonSet"})
"""Kinds that carry our labels without being made by us."""
_OWN_PARTS = f"{FIELD_MANAGER}-"
"""Field managers of what gpupool itself keeps in the cluster, as the last good states: not of the file."""
_ENFORCING = frozenset({"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"})
"""Kinds that an additional field can disable."""
_CREATED_SECONDS = 60.0
"""An object that is deleted and recreated is missing for a moment; a namespace takes seconds to go
(namespace controller, Kubernetes 1.36). After a minute it is reported as a deletion."""


def check(inputs: DriftInput) -> Iterator[Drift]:
    """Objects that are missing, changed, added to, or too many."""
    wanted = [m for m in inputs.bundle if not (m.patch and m.kind == "Node")]
    lost_namespaces = {
        m.name
        for m in wanted
        if m.kind == "Namespace" and not inputs.snapshot.find("v1", "Namespace", m.name)
    }
    if not any(inputs.live(m.body) for m in wanted):
        yield _nothing(inputs, wanted)
        return
    lost_kinds: dict[tuple[str, str], list[Manifest]] = {}
    for manifest in wanted:
        kind = (manifest.api_version, manifest.kind)
        live = inputs.snapshot.find(*kind, manifest.name, manifest.namespace)
        if kind in inputs.snapshot.unknown:
            lost_kinds.setdefault(kind, []).append(manifest)
        elif live is None:
            if manifest.namespace not in lost_namespaces:
                yield _missing(inputs, manifest, wanted)
        elif is_being_deleted(live):
            yield _going(inputs, manifest, live)
        else:
            yield from _changed(inputs, manifest, live)
    for kind, manifests in lost_kinds.items():
        yield _unknown_kind(inputs, kind, manifests)
    yield from _extra(inputs, wanted)


def _nothing(inputs: DriftInput, wanted: list[Manifest]) -> Drift:
    return Drift(
        layer="objects",
        code="missing",
        object=f"environment {inputs.plan.environment}",
        what=f"none of its {len(wanted)} objects exists: it was never applied, or everything was deleted",
        remediation=inputs.apply(parts=wanted),
    )


def _missing(inputs: DriftInput, manifest: Manifest, wanted: list[Manifest]) -> Drift:
    inside = sum(1 for other in wanted if manifest.kind == "Namespace" and other.namespace == manifest.name)
    reason = "it is not in the cluster" + (f", nor are the {inside} objects in it" if inside else "")
    return Drift(
        layer=layer_of(manifest),
        code="missing",
        object=str(manifest),
        what=_because(reason, consequence(manifest, "missing")),
        remediation=inputs.restore(manifest),
    )


def _unknown_kind(inputs: DriftInput, kind: tuple[str, str], manifests: list[Manifest]) -> Drift:
    names = ", ".join(manifest.name for manifest in manifests[:3]) + (", ..." if len(manifests) > 3 else "")
    return Drift(
        layer=layer_of(manifests[0]),
        code="kind-unknown",
        object=f"{kind[1]} {names}",
        what=f"the cluster has no kind {kind[1]} in {kind[0]}: its CRD is not installed",
        remediation=repair.define(inputs.plan, inputs.env, inputs.bundle, kind[0]),
    )


def _going(inputs: DriftInput, manifest: Manifest, live: Object) -> Drift:
    """Deleted, and not gone yet: finalizers, or what is still in a namespace."""
    lasting = inputs.seconds_since(live["metadata"]["deletionTimestamp"])
    held = ", ".join(live["metadata"].get("finalizers") or live.get("spec", {}).get("finalizers") or ())
    stuck = [
        row.get("message", "")
        for row in (live.get("status") or {}).get("conditions") or ()
        if row.get("type", "").startswith("Namespace") and row.get("status") == "True"
    ]
    reason = "; ".join(filter(None, stuck)) or (f"held by {held}" if held else "")
    return Drift(
        layer=layer_of(manifest),
        code="going",
        object=str(manifest),
        what=_because("it is being deleted, by somebody else", reason)
        + ("" if lasting < _CREATED_SECONDS else "; a deletion can't be undone"),
        remediation=repair.all_of(
            _wait_gone(manifest),
            inputs.restore(manifest),
        ),
    )


def _wait_gone(manifest: Manifest) -> repair.Command:
    where = f"-n {manifest.namespace} " if manifest.namespace else ""
    waited = f"{manifest.kind.lower()}/{manifest.name}"
    return repair.Command(f"kubectl {where}wait --for=delete {waited} --timeout=5m")


def _changed(inputs: DriftInput, manifest: Manifest, live: Object) -> Iterator[Drift]:
    owners = Ownership(live)
    for difference in differences(manifest.body, live, inputs.plan.cluster.kubernetes_version):
        yield _difference(inputs, manifest, owners, difference)
    if manifest.patch:
        return
    enforcing = manifest.kind in _ENFORCING
    for path, manager in owners.added(manifest.body, inputs.deliverers):
        text = format_path(path)
        reason = f"{text} was added by {manager}, the file does not have it"
        yield Drift(
            layer=layer_of(manifest),
            code="added",
            object=str(manifest),
            path=text,
            by=manager,
            what=_because(reason, consequence(manifest, "added") if enforcing else ""),
            remediation=repair.remove_field(manifest.kind, manifest.name, manifest.namespace, path),
            category=Category.drift if enforcing else Category.warning,
        )


def _difference(inputs: DriftInput, manifest: Manifest, owners: Ownership, difference: Change) -> Drift:
    path = difference.path
    wanted, found = (None if value is MISSING else value for value in (difference.old, difference.new))
    text = format_path(path)
    by, _ = owners.of(path, FIELD_MANAGER)
    by = "" if by in inputs.deliverers else by
    change = FieldChange(text, _shown(wanted), _shown(found))
    shared = isinstance(found, list) and path[-1] in SETS
    where = (manifest.kind, manifest.name, manifest.namespace)
    reason = f"{change} in the cluster" + (f", set by {by}" if by else "")
    return Drift(
        layer=layer_of(manifest),
        code="changed",
        object=str(manifest),
        path=text,
        wanted=wanted,
        found=found,
        by=by,
        what=_because(reason, consequence(manifest, "changed", path, wanted, found)),
        remediation=repair.set_field(*where, path, wanted) if shared else inputs.restore(manifest),
    )


def _shown(value: Any) -> Any:
    """A list of named items by their names, which are clearer than the first fields of the first item."""
    named = isinstance(value, list) and all(isinstance(item, Mapping) and "name" in item for item in value)
    if not named:
        return None if value == [] else value
    return (
        ", ".join(f"{item['kind']} {item['name']}" if "kind" in item else item["name"] for item in value)
        or None
    )


def _extra(inputs: DriftInput, wanted: list[Manifest]) -> Iterator[Drift]:
    engines_own = map(Manifest, delivering(inputs.bundle))
    known = {(m.api_version, m.kind, m.namespace, m.name) for m in (*wanted, *engines_own)}
    gone = set()
    for (api_version, kind), held in inputs.snapshot.objects.items():
        if kind in _NOT_OURS:
            continue
        for (namespace, name), live in held.items():
            if (api_version, kind, namespace, name) in known or namespace in gone:
                continue
            if live["metadata"].get("ownerReferences") or not _is_ours(inputs, live):
                continue
            if kind == "Namespace":
                gone.add(name)
            yield _too_many(inputs, Manifest(live), live)


def _is_ours(inputs: DriftInput, live: Object) -> bool:
    if any(manager.startswith(_OWN_PARTS) for manager in managers(live)):
        return False
    if ENVIRONMENT_LABEL in labels(live):
        return environment_of(live) == inputs.plan.environment
    return made_by_up(live)


def _too_many(inputs: DriftInput, manifest: Manifest, live: Object) -> Drift:
    kind, name, namespace = manifest.kind, manifest.name, manifest.namespace
    applied = bool(appliers(live) & inputs.deliverers)
    consent = kind == "Namespace" and TENANT_LABEL in manifest.labels
    options = ("--allow-delete", f"Namespace/{name}") if consent else ()
    if is_being_deleted(live):
        reason, command, level = (
            "it is being deleted",
            f"kubectl get {kind.lower()} {name}",
            Category.settling,
        )
    elif applied and keeps(inputs.plan.delivery, live["metadata"].get("annotations", {})):
        # The engine will not delete it, however often it is asked to.
        delivery = inputs.plan.delivery
        reason = f"the file no longer has it, and {delivery.by.title} leaves it until somebody deletes it"
        command = repair.delete(kind, name, namespace)
        level = Category.warning if delivery.on_removal == "keep" else Category.drift
    elif applied and _unused(inputs, manifest):
        # One that a repartition has left is not in the engine's state, so `up` might not see it.
        reason = "the file no longer has it, and no ClusterPolicy refers to it"
        command, level = repair.delete(kind, name, namespace), Category.drift
    elif applied and ENVIRONMENT_LABEL not in manifest.labels and not inputs.plan.delivery.gitops:
        # One that is not in the engine's state `up` knows by its labels.
        reason = "the file no longer has it, and its labels were removed"
        command, level = repair.delete(kind, name, namespace), Category.drift
    elif applied:
        reason = "the file no longer has it, but it was not removed"
        command, level = inputs.apply(*options, parts=[manifest]), Category.drift
    else:
        makers = ", ".join(sorted(managers(live) - inputs.deliverers)) or "somebody"
        reason = f"it has the labels of this environment but is not in the file; created by {makers}"
        command, level = repair.delete(kind, name, namespace), Category.drift
    return Drift(
        layer=layer_of(manifest),
        code="extra",
        object=str(manifest),
        what=_because(reason, consequence(manifest, "extra")),
        remediation=command,
        category=level,
    )


def _unused(inputs: DriftInput, manifest: Manifest) -> bool:
    """Whether it is a configuration of the operator's that no operand is pointed at. Where Argo CD or Flux
    delivers, they delete what they have applied."""
    policies = list(inputs.snapshot.of("nvidia.com/v1", "ClusterPolicy"))
    used = {config_name(policy, operand) for policy in policies for operand in OPERANDS}
    return manifest.mounted_by_operator and not inputs.plan.delivery.gitops and manifest.name not in used


def _because(what: str, why: str) -> str:
    return f"{what}: {why}" if why else what
