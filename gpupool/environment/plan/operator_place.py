"""Where a cluster's GPU Operator runs, from whatever objects there are: a live cluster's, or of files.

An operand mounts ConfigMaps of the operator's own namespace and of no other, so it must be known before
anything is pointed at one. Kinds are matched by their API group, because others have kinds of the same
names. Facts: gpu-operator v26.7.0 (status of the ClusterPolicy, the chart's Deployment), Helm 3
(annotations), OLM v0 (labels of what it installs, its copies of a ClusterServiceVersion).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpupool.environment.plan.model import MANAGED_BY
from gpupool.environment.spec.yaml_source import value_at

Object = Mapping[str, Any]

SIMULATED_IN = "simulated.gpupool.dev/namespace"
"""Annotation of a ClusterPolicy by which the simulated operator knows where it runs."""
_OUR_MAPS = ("gpupool-device-plugin-", "gpupool-mig-", "gpupool-dcgm-")
"""How the names of the ConfigMaps begin that the operator's operands mount (generators.device_plugin,
generators.mig_parted, gpupool.generators.monitoring.exporter)."""
_GROUP = "nvidia.com"
_PACKAGES = ("gpu-operator-certified", "gpu-operator")
"""The operator's packages in OLM's catalogues."""
_OLM_LABEL = re.compile(rf"operators\.coreos\.com/(?:{'|'.join(_PACKAGES)})\.([a-z0-9][-a-z0-9]*)")
"""What OLM labels the objects of an operator with: package and namespace, in the key."""
_COPIED = "olm.copiedFrom"
"""Label of the copies that OLM makes of a ClusterServiceVersion in all other namespaces."""
_RELEASE_NAMESPACE = "meta.helm.sh/release-namespace"
_COMPONENT = "app.kubernetes.io/component"
_DEPLOYMENT = "gpu-operator"
"""Name, and component, of the operator's Deployment in the chart and in OLM's bundle."""


@dataclass(frozen=True, slots=True)
class OperatorPlace:
    """One sign of where the operator runs."""

    namespace: str
    sign: str
    """What says so, for people."""


def places(objects: Iterable[Object]) -> tuple[OperatorPlace, ...]:
    """Every sign that `objects` give, the most certain first: what the operator says of itself, what it runs
    in, and last what is to install it."""
    rows = list(objects)
    return tuple(place for read in _SIGNS for row in rows for place in read(row))


def operator_place(objects: Iterable[Object]) -> OperatorPlace | None:
    """The most certain sign; None where nothing shows it."""
    return next(iter(places(objects)), None)


def is_operator_map(kind: str, name: str) -> bool:
    """Whether an object of gpupool's is a ConfigMap that the operator's operands mount."""
    return kind == "ConfigMap" and name.startswith(_OUR_MAPS)


def is_cluster_policy(thing: Object) -> bool:
    """Whether it is the operator's own kind, and not Kyverno's of the same name."""
    return _is(thing, _GROUP, "ClusterPolicy")


def _is(thing: Any, group: str, kind: str) -> bool:
    """Whether it is of that kind; a document of a file may be anything."""
    return (
        isinstance(thing, Mapping)
        and thing.get("kind") == kind
        and str(thing.get("apiVersion", "")).rpartition("/")[0] == group
    )


def _text(thing: Object, *path: str) -> str:
    value = value_at(thing, path)
    return value if isinstance(value, str) else ""


def _place(namespace: str, sign: str) -> Iterator[OperatorPlace]:
    if namespace:
        yield OperatorPlace(namespace, sign)


def _status(thing: Object) -> Iterator[OperatorPlace]:
    if is_cluster_policy(thing):
        name = _text(thing, "metadata", "name")
        yield from _place(_text(thing, "status", "namespace"), f"the status of ClusterPolicy {name}")


def _operand(thing: Object) -> Iterator[OperatorPlace]:
    """A DaemonSet that the ClusterPolicy owns."""
    owners = value_at(thing, ("metadata", "ownerReferences"))
    if _is(thing, "apps", "DaemonSet") and any(map(is_cluster_policy, owners or ())):
        yield from _place(
            _text(thing, "metadata", "namespace"), f"DaemonSet {_text(thing, 'metadata', 'name')}"
        )


def _deployment(thing: Object) -> Iterator[OperatorPlace]:
    if not _is(thing, "apps", "Deployment") and not _is(thing, "", "Pod"):
        return
    component = value_at(thing, ("metadata", "labels", _COMPONENT))
    name = _text(thing, "metadata", "name")
    named = thing.get("kind") == "Deployment" and name == _DEPLOYMENT
    if component == _DEPLOYMENT or named:
        yield from _place(_text(thing, "metadata", "namespace"), f"{thing['kind']} {name}")


def _release(thing: Object) -> Iterator[OperatorPlace]:
    if is_cluster_policy(thing):
        yield from _place(
            _text(thing, "metadata", "annotations", _RELEASE_NAMESPACE),
            "the Helm release of the ClusterPolicy",
        )


def _olm_labels(thing: Object) -> Iterator[OperatorPlace]:
    for key in value_at(thing, ("metadata", "labels")) or {}:
        if match := _OLM_LABEL.fullmatch(str(key)):
            yield OperatorPlace(
                match[1], f"OLM's label on {thing.get('kind')} {_text(thing, 'metadata', 'name')}"
            )


def _olm(thing: Object) -> Iterator[OperatorPlace]:
    """Its ClusterServiceVersion, and the Subscription that asks for it."""
    name = _text(thing, "metadata", "name")
    labels = value_at(thing, ("metadata", "labels")) or {}
    of_package = name.partition(".")[0] in _PACKAGES and _COPIED not in labels
    if _is(thing, "operators.coreos.com", "ClusterServiceVersion") and of_package:
        yield from _place(_text(thing, "metadata", "namespace"), f"ClusterServiceVersion {name}")
    if _is(thing, "operators.coreos.com", "Subscription") and _text(thing, "spec", "name") in _PACKAGES:
        yield from _place(_text(thing, "metadata", "namespace"), f"Subscription {name}")


def _ours(thing: Object) -> Iterator[OperatorPlace]:
    """What gpupool has put where the operator runs."""
    name = _text(thing, "metadata", "name")
    if is_cluster_policy(thing):
        sign = f"an annotation of ClusterPolicy {name}"
        yield from _place(_text(thing, "metadata", "annotations", SIMULATED_IN), sign)
    if _text(thing, "metadata", "labels", MANAGED_BY) == "gpupool" and is_operator_map(
        str(thing.get("kind")), name
    ):
        yield from _place(_text(thing, "metadata", "namespace"), f"ConfigMap {name} of gpupool's")


_SIGNS = (_operand, _status, _deployment, _release, _olm_labels, _olm, _ours)
"""The most certain first: pods that mount, what the operator says of itself, and last what was put there."""
