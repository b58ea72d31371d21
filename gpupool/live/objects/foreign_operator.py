"""A GPU Operator that somebody else runs: may its ClusterPolicy be pointed at our configurations, and
would it follow them?

Only reads. What is set there by its owner is refused rather than overwritten, because giving a field
up on destroy would not bring the owner's value back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpupool.environment.plan.operator_place import OperatorPlace, operator_place
from gpupool.environment.plan.owned_settings import undoing
from gpupool.findings import GpupoolError
from gpupool.generators.manifest import Manifest
from gpupool.live.cluster.kube_api import KubeApi
from gpupool.live.cluster.live_objects import Object, cluster_policy, config_name

_OURS = "gpupool-"


class UnfitError(GpupoolError):
    """The operator would not follow the pools as it is; says what to do."""


_PODS = "app.kubernetes.io/component=gpu-operator"
"""What the chart and OLM's bundle label the operator's own pods with (gpu-operator v26.7.0)."""


def find(api: KubeApi) -> tuple[Object | None, OperatorPlace | None]:
    """The cluster's ClusterPolicy, and where its operator runs: by the policy, else by the operator's pods.
    None for each that nothing shows."""
    live = cluster_policy(api)
    place = operator_place([live]) if live else None
    return live, place or operator_place(api.list("v1", "Pod", selector=_PODS))


def check(manifest: Manifest, api: KubeApi, namespace: str) -> None:
    """Raise UnfitError where the ClusterPolicy that `manifest` patches is missing, has another name, is
    taken, or has settings that would undo the pools; and where its operator does not run in `namespace`,
    whose ConfigMaps alone its pods can mount."""
    live, place = find(api)
    if live is None:
        raise UnfitError(
            "there is no ClusterPolicy; install the GPU Operator, or let gpupool do it "
            "(gpuOperator.install: true)"
        )
    there = live["metadata"]["name"]
    if there != manifest.name:
        raise UnfitError(
            f"the operator's ClusterPolicy is named {there}, but gpuOperator.clusterPolicy is "
            f"{manifest.name}; write gpuOperator.clusterPolicy: {there}"
        )
    if place is not None and place.namespace != namespace:
        raise UnfitError(
            f"the operator runs in namespace {place.namespace} (according to {place.sign}), so its pods "
            f"can't mount ConfigMaps of {namespace}; write gpuOperator.namespace: {place.namespace}"
        )
    if api.get("v1", "Namespace", namespace) is None:
        raise UnfitError(
            f"namespace {namespace} for the operator's configurations does not exist; set "
            f"gpuOperator.namespace to the namespace of its pods (kubectl get pods -A -l {_PODS})"
        )
    if problems := list(_problems(manifest.body["spec"], live)):
        raise UnfitError("\n".join(problems))


def _problems(patch: Mapping[str, Any], live: Object) -> Iterator[str]:
    where = f"ClusterPolicy {live['metadata']['name']}: spec"
    for operand in patch:
        config = config_name(live, operand)
        if config and not config.startswith(_OURS):
            yield (
                f"{where}.{operand}.config.name is {config}, set by others; clear it to use the pools' "
                "configurations"
            )
    for setting in undoing(live.get("spec"), partitioned="migManager" in patch):
        yield (
            f"{where}.{setting.name}: gpupool derives it: {setting.why}; remove it, or set what gpupool "
            "doctor prints"
        )
