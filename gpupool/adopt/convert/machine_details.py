"""Disk, network, kubelet, placement, tags and startup taints of Karpenter's objects -> fields of `nodes`.

What the file's own types refuse is left, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from gpupool.adopt.convert.account import Part
from gpupool.adopt.convert.draft import Values
from gpupool.environment.plan.checks.machines import OWN_TAGS
from gpupool.environment.spec.environment import Taint
from gpupool.environment.spec.field_types import Model
from gpupool.environment.spec.machines import (
    Kubelet,
    PlacementGroup,
    RootVolume,
    SecurityGroupTerm,
    SubnetTerm,
)

_DEFAULT = RootVolume()
_EBS = {
    "volumeSize": "size",
    "volumeType": "type",
    "iops": "iops",
    "throughput": "throughput",
    "kmsKeyID": "kmsKey",
    "snapshotID": "snapshot",
}
"""Field of EC2NodeClass blockDeviceMappings[].ebs -> field of `nodes.rootVolume`."""
_PLATFORM_TAGS = ("kubernetes.io/cluster", "karpenter.sh/", "karpenter.k8s.aws/", "eks:")
NETWORK: Mapping[str, tuple[type[Model], str, str]] = {
    "subnets": (SubnetTerm, "subnetSelectorTerms", "subnetSelector"),
    "securityGroups": (SecurityGroupTerm, "securityGroupSelectorTerms", "securityGroupSelector"),
}
"""Field of `nodes` -> its type, and the fields of a node class and of an AWSNodeTemplate."""


def of_class(spec: Part) -> Values:
    """The fields that the node class at `spec` says, but for subnets and security groups."""
    details: Values = {}
    if volume := _root_volume(spec.at("blockDeviceMappings")):
        details["rootVolume"] = volume
    if kubelet := of_kubelet(spec.at("kubelet")):
        details["kubelet"] = kubelet
    group = spec.at("placementGroupSelector")
    if group and (selector := _fitting(PlacementGroup, group.value)):
        group.used()
        details["placementGroup"] = selector
    if tags := dict(_tags(spec.at("tags"))):
        details["tags"] = tags
    return details


def terms_at(part: Part) -> list[Any]:
    """The terms of a node class, or the mapping of tags that an AWSNodeTemplate has in their place."""
    return part.value if isinstance(part.value, list) else [{"tags": part.value}]


def network(part: Part, model: type[Model]) -> list[Values]:
    """The terms at `part`; empty where one of them is none of the file's."""
    rows = terms_at(part)
    terms = [term for row in rows if (term := _fitting(model, row))]
    if not terms or len(terms) < len(rows):
        return []
    part.used()
    return terms


def of_kubelet(part: Part) -> Values:
    """The kubelet's settings, each that the file has."""
    settings: Values = {}
    for key, inner in part.items():
        if setting := _fitting(Kubelet, {key: inner.value}):
            inner.used()
            settings |= setting
    return settings


def startup_taints(part: Part) -> list[Values]:
    taints = []
    for item in part.each():
        if taint := _fitting(Taint, item.value):
            item.used()
            taints.append(taint)
    return taints


def _root_volume(mappings: Part) -> Values:
    """The root disk, where it is not what gpupool makes of itself."""
    items = list(mappings.each())
    marked = [item for item in items if item.at("rootVolume").value is True]
    roots = marked or [item for item in items if item.word("deviceName") == "/dev/xvda"]
    if len(roots) != 1:
        return {}
    root, ebs = roots[0], roots[0].at("ebs")
    volume = {name: ebs.at(field).value for field, name in _EBS.items() if ebs.at(field)}
    fields = _fitting(RootVolume, volume)
    if root.word("deviceName") not in ("/dev/xvda", "") or fields is None:
        return {}
    root.uses("deviceName", "rootVolume")
    ebs.uses(*_EBS)
    for name in ("encrypted", "deleteOnTermination"):
        if ebs.at(name).value is True:
            ebs.at(name).derived()
        else:
            ebs.at(name).left("gpupool encrypts root disks and deletes them with the machine")
    default = _DEFAULT.model_dump(by_alias=True, exclude_none=True)
    return {key: value for key, value in fields.items() if value != default.get(key)}


def _tags(part: Part) -> Iterator[tuple[str, str]]:
    for key, tag in part.items():
        if key in OWN_TAGS:
            tag.derived()
        elif key.startswith(_PLATFORM_TAGS) or not isinstance(tag.value, str):
            tag.left("EKS or Karpenter sets it, or it is not a string", "remove it")
        else:
            tag.used()
            yield key, tag.value


def _fitting(model: type[Model], value: Any) -> Values | None:
    """The value as the file would have it; None where the file's type refuses it."""
    if not isinstance(value, Mapping) or not value:
        return None
    try:
        return model.model_validate(dict(value)).model_dump(by_alias=True, exclude_unset=True)
    except ValidationError:
        return None
