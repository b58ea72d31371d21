"""The policies and their bindings, as the environment wants them enforced.

The files are data. Bindings change: their actions by `policies.default` and `overrides`, what they apply to
by `waivers`; policies, where they leave the operator's namespace out. A policy that would judge other
people's objects has a variable `bound`, which says what it judges; with `policies.scope: cluster` it judges
all. The variable `claimed` leaves out the DeviceClasses that the file allows. A waiver for a namespace takes
the namespace out of the binding; one for everywhere leaves the policy to the audit log. Both are noted on the
binding with owner, reason and last day. The end of a waiver changes nothing here: `policy check` reports it,
and a person removes the waiver.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.policies import Action, Policies
from gpupool.environment.plan.policy_files import BINDING, read_objects
from gpupool.environment.spec.environment import OPERATOR_NAMESPACE
from gpupool.environment.spec.services import Waiver
from gpupool.generators.manifest import Manifest
from gpupool.generators.metadata import object_labels

WAIVED = "waivers.policies.gpupool.dev/"
"""Prefix of the annotations that list a binding's waivers, by namespace."""
EVERYWHERE = "Everywhere"
"""Stands for all namespaces there; no namespace has a capital letter."""
_BOUND = "bound"
"""Variable of a shipped policy: whether it judges the object at all."""
_CLAIMED = "claimed"
"""Variable of pods-use-no-claims: what a pod claims of classes that are not allowed."""
_CLASS_RESOURCE = "deviceclass.resource.kubernetes.io/"
"""Prefix of the resource that each DeviceClass has by itself."""
_SHIPPED = {"policies.gpupool.dev/part-of": "gpupool"}
_NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""Label that the API server puts on every namespace."""
_STRICTNESS: tuple[Action, ...] = ("audit", "warn", "deny")
_KNOWN = tuple(action.capitalize() for action in _STRICTNESS)
"""The same as Kubernetes writes them."""


def generate(plan: Plan) -> Iterator[Manifest]:
    labels = object_labels(plan)
    variables = _variables(plan)
    for body in read_objects(plan.policies.files):
        described = dict(body["metadata"])
        described["labels"] = {**labels, **(described.get("labels") or {})}
        labelled = _beside_operator({**body, "metadata": described}, plan.gpu_operator.namespace)
        if body["kind"] == BINDING:
            yield Manifest(_enforced(labelled, plan.policies))
        elif variables and _SHIPPED.items() <= described["labels"].items():
            yield Manifest(_with_variables(labelled, variables))
        else:
            yield Manifest(labelled)


def _variables(plan: Plan) -> dict[str, str]:
    """Variables of shipped policies that the environment file decides, with their expressions."""
    variables = {}
    if plan.policies.scope == "cluster":
        variables[_BOUND] = "true"
    if plan.policies.limits.device_classes:
        allowed = [_CLASS_RESOURCE + name for name in sorted(plan.policies.limits.device_classes)]
        # Claims that pods name are judged by their classes when they are created.
        variables[_CLAIMED] = f"variables.resources.filter(r, !(r in {json.dumps(allowed)}))"
    return variables


def _with_variables(policy: dict[str, Any], expressions: Mapping[str, str]) -> dict[str, Any]:
    spec = policy.get("spec") or {}
    rows = [
        {**row, "expression": expressions.get(row.get("name"), row.get("expression"))}
        for row in spec.get("variables") or ()
    ]
    return {**policy, "spec": {**spec, "variables": rows}} if rows else policy


def _beside_operator(thing: Any, namespace: str) -> Any:
    """A policy or binding whose selectors of namespaces mean the operator's own where they name its usual
    one."""
    if isinstance(thing, dict):
        if thing.get("key") == _NAMESPACE_NAME and isinstance(thing.get("values"), list):
            values = [namespace if name == OPERATOR_NAMESPACE else name for name in thing["values"]]
            return {**thing, "values": list(dict.fromkeys(values))}
        return {key: _beside_operator(value, namespace) for key, value in thing.items()}
    return [_beside_operator(value, namespace) for value in thing] if isinstance(thing, list) else thing


def _enforced(binding: dict[str, Any], policies: Policies) -> dict[str, Any]:
    """The binding with the environment's actions and waivers."""
    spec = dict(binding.get("spec") or {})
    policy = str(spec.get("policyName", ""))
    waivers = policies.waivers_of(policy)
    spec["validationActions"] = _actions(
        [str(action) for action in spec.get("validationActions") or ()], policy, policies, waivers
    )
    namespaces = sorted({waiver.namespace for waiver in waivers if waiver.namespace})
    if namespaces:
        spec["matchResources"] = _without(spec.get("matchResources") or {}, namespaces)
    if not waivers:
        return {**binding, "spec": spec}
    notes = {f"{WAIVED}{waiver.namespace or EVERYWHERE}": _note(waiver) for waiver in waivers}
    described = binding["metadata"]
    annotations = {**(described.get("annotations") or {}), **dict(sorted(notes.items()))}
    return {**binding, "metadata": {**described, "annotations": annotations}, "spec": spec}


def _actions(written: Sequence[str], policy: str, policies: Policies, waivers: Sequence[Waiver]) -> list[str]:
    """What happens on a violation. The default weakens and never strengthens; an override is exact. Audit
    that stands beside the main action stays, and so does what is not an action, for the check to refuse."""
    if any(action not in _KNOWN for action in written):
        return list(written)
    wanted = policies.overrides.get(policy)
    if wanted is None:
        strictest = max((_KNOWN.index(action) for action in written), default=0)
        mildest = min(_STRICTNESS.index(policies.default), strictest)
        wanted = _STRICTNESS[mildest]
    if any(waiver.namespace is None for waiver in waivers):
        wanted = "audit"
    beside = ["Audit"] if len(written) > 1 and "Audit" in written and wanted != "audit" else []
    return [wanted.capitalize(), *beside]


def _without(match: Mapping[str, Any], namespaces: Sequence[str]) -> dict[str, Any]:
    """`match` without `namespaces`; what it already demands stays."""
    selector = dict(match.get("namespaceSelector") or {})
    left_out = {"key": _NAMESPACE_NAME, "operator": "NotIn", "values": list(namespaces)}
    selector["matchExpressions"] = [*(selector.get("matchExpressions") or ()), left_out]
    return {**match, "namespaceSelector": selector}


def _note(waiver: Waiver) -> str:
    return f"{waiver.owner}, until {waiver.until.isoformat()}: {waiver.reason}"
