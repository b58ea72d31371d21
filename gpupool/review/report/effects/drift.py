"""Which nodes Karpenter replaces when a NodePool or its node class changes: Karpenter's rule, on manifests.

Karpenter v1.14.1, pkg/controllers/nodeclaim/disruption/drift.go and pkg/apis/v1/nodepool.go: `spec.template`
is hashed except for its requirements, which are compared with each node's labels; budgets, limits, weight and
the time until consolidation are outside of the template and replace nothing. AWS provider v1.14.1,
pkg/cloudprovider/ drift.go and pkg/apis/v1/ec2nodeclass.go: the class is hashed except for what selects
images, subnets and security groups, where what is selected now counts.

Works on what is generated rather than on the file, so that no field can be forgotten here. Lists in the hash
are sets. Does not depend on pools.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gpupool.environment.plan.changes import wording
from gpupool.environment.plan.changes.fields import differing
from gpupool.environment.plan.changes.model import SettingChange
from gpupool.environment.plan.model import Taint

Body = Mapping[str, Any]

_BY_SELECTION = {
    "amiSelectorTerms": "image",
    "subnetSelectorTerms": "subnet",
    "securityGroupSelectorTerms": "security group",
}
"""Fields of an EC2NodeClass that are not hashed: what they select now is held against the node."""
_RESERVATIONS = "capacityReservationSelectorTerms"
"""Nor is this: a node goes whose own reservation is no longer selected."""
_FAMILY = "amiFamily"
"""Hashed as it follows from an alias, not as written."""
_FAMILIES = {"al2": "AL2", "al2023": "AL2023", "bottlerocket": "Bottlerocket"}
_LABELS = {
    "node.kubernetes.io/instance-type": "instance type",
    "karpenter.sh/capacity-type": "capacity type",
    "topology.kubernetes.io/zone": "zone",
    "kubernetes.io/arch": "architecture",
}


@dataclass(frozen=True, slots=True)
class NodeReplacement:
    """One reason for which nodes of a NodePool are replaced."""

    reason: str
    which: Literal["all", "some", "unknown"]
    """all of its nodes; those that `only` describes; or it depends on something outside the manifests."""
    only: str = ""
    """Which ones, as `with instance type g5.xlarge`."""


def node_pool_drifts(before: Body, after: Body) -> list[NodeReplacement]:
    """Why nodes of the NodePool `before` are replaced once it is `after`."""
    old, new = before["spec"]["template"], after["spec"]["template"]
    return [*_hashed_template(old, new), *_requirements(old["spec"], new["spec"])]


def _hashed_template(old: Body, new: Body) -> list[NodeReplacement]:
    drifts = [
        NodeReplacement(reason, "all")
        for what, section in (("label", "labels"), ("annotation", "annotations"))
        for reason in mapping_reasons(
            what, old["metadata"].get(section, {}), new["metadata"].get(section, {})
        )
    ]
    for field in sorted({*old["spec"], *new["spec"]} - {"requirements"}):
        was, now = _as_set(old["spec"].get(field)), _as_set(new["spec"].get(field))
        if was != now:
            drifts.append(
                NodeReplacement(_field_reason(field, old["spec"].get(field), new["spec"].get(field)), "all")
            )
    return drifts


def _requirements(old: Body, new: Body) -> list[NodeReplacement]:
    """Nodes have labels that `old` allowed; those that `new` does not allow any more are replaced."""
    allowed = {each["key"]: each["values"] for each in old["requirements"]}
    drifts = []
    for each in new["requirements"]:
        key, values = each["key"], each["values"]
        name = _LABELS.get(key, key)
        if key not in allowed:
            only = f"whose {name} is not {_either(values)}"
            drifts.append(NodeReplacement(f"{name} must now be {_either(values)}", "some", only))
            continue
        lost = [value for value in allowed[key] if value not in values]
        if not lost:
            continue
        reason = f"{name} {_either(lost)} is no longer allowed"
        if len(lost) == len(allowed[key]):
            drifts.append(NodeReplacement(f"{reason}, it must be {_either(values)}", "all"))
        else:
            drifts.append(NodeReplacement(reason, "some", f"with {name} {_either(lost)}"))
    return drifts


def node_class_drifts(before: Body, after: Body) -> list[NodeReplacement]:
    """Why nodes made from the EC2NodeClass `before` are replaced once it is `after`."""
    old, new = before.get("spec", {}), after.get("spec", {})
    drifts = [
        NodeReplacement(_field_reason(field, old.get(field), new.get(field)), "all")
        for field in sorted({*old, *new} - {*_BY_SELECTION, _RESERVATIONS, _FAMILY})
        if _as_set(old.get(field)) != _as_set(new.get(field))
    ]
    if _family(old) != _family(new):
        drifts.append(NodeReplacement(f"image family changes from {_family(old)} to {_family(new)}", "all"))
    selected = {field: what for field, what in _BY_SELECTION.items() if old.get(field) != new.get(field)}
    if "amiSelectorTerms" in selected:
        was, now = _terms(old["amiSelectorTerms"]), _terms(new["amiSelectorTerms"])
        drifts.append(
            NodeReplacement(
                f"image changes from {was} to {now}", "unknown", "whose image Karpenter can't find"
            )
        )
    elsewhere: dict[str, list[str]] = {}
    for field, what in selected.items():
        if field != "amiSelectorTerms":
            elsewhere.setdefault(f"by {_terms(new[field])} instead of {_terms(old[field])}", []).append(what)
    for how, whats in elsewhere.items():
        what = " and ".join(whats)
        reason = f"{what} are found {how}"
        drifts.append(NodeReplacement(reason, "unknown", f"whose {what} Karpenter can't find"))
    gone = [term for term in old.get(_RESERVATIONS, ()) if term not in new.get(_RESERVATIONS, ())]
    if gone:
        which = f"of the reservation {_terms(gone)}"
        drifts.append(NodeReplacement(f"{_terms(gone)} is no longer reserved", "some", which))
    return drifts


def _family(spec: Body) -> str:
    for term in spec.get("amiSelectorTerms", ()):
        if "alias" in term:
            name = str(term["alias"]).partition("@")[0]
            return _FAMILIES.get(name, name)
    return str(spec.get(_FAMILY, "unknown"))


def _terms(terms: Sequence[Body]) -> str:
    def term(given: Body) -> str:
        flat = {**given, **given.get("tags", {})}
        return ", ".join(f"{key} {value}" for key, value in sorted(flat.items()) if key != "tags")

    return " or ".join(map(term, terms))


def mapping_reasons(what: str, old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """What differs between two sets of labels or annotations, one reason each."""
    return [
        _mapping_reason(f"{what} {field_change.name}", field_change) for field_change in differing(old, new)
    ]


def _mapping_reason(called: str, change: SettingChange) -> str:
    if change.before is None:
        return f"{called}={change.after} is new"
    if change.after is None:
        return f"{called}={change.before} goes"
    return f"{called} changes from {change.before or 'empty'} to {change.after or 'empty'}"


def _field_reason(field: str, was: Any, now: Any) -> str:
    if field == "taints":
        return f"taints change from {_taints(was)} to {_taints(now)}"
    if isinstance(was, str) and isinstance(now, str) and len(was) + len(now) < 80 and "\n" not in was + now:
        return f"{field} changes from {was} to {now}"
    return f"{field} " + ("is new" if was in (None, []) else "goes" if now in (None, []) else "changes")


def _taints(given: Sequence[Body] | None) -> str:
    taints = [Taint(one["key"], one.get("value", ""), one["effect"]) for one in given or ()]
    return ", ".join(sorted(map(wording.taint, taints))) or "none"


def _as_set(value: Any) -> Any:
    """`value` in a form in which lists compare as sets, as Karpenter's hash takes them."""
    if isinstance(value, Mapping):
        return {key: _as_set(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return sorted(json.dumps(_as_set(item), sort_keys=True) for item in value) or None
    return value


def _either(values: Sequence[str]) -> str:
    return " or ".join(values)
