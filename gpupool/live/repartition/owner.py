"""Which environment owns the cluster: a repartition only writes to objects with the label of its own
environment.

Only reads. The labels of running nodes and the operator's settings are written with force, so that nothing in
the API server would keep one environment's file from taking over what another one has applied.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpupool.environment.plan.model import SYSTEM_NAMESPACE
from gpupool.environment.plan.operator_place import operator_place
from gpupool.environment.spec.environment import OPERATOR_NAMESPACE
from gpupool.findings import GpupoolError
from gpupool.live.cluster.kube_api import KubeApi
from gpupool.live.objects import repartition_mark
from gpupool.live.objects.owner import OURS, environment_of

_KINDS = (
    ("nvidia.com/v1", "ClusterPolicy", None),
    ("v1", "ConfigMap", SYSTEM_NAMESPACE),
    ("karpenter.sh/v1", "NodePool", None),
)


class OtherEnvironmentError(GpupoolError):
    """The cluster has been applied from the file of another environment."""


def require_own(api: KubeApi, environment: str) -> None:
    """Raise OtherEnvironmentError where the cluster's settings or pools are of another environment.

    A cluster has one ClusterPolicy, whose settings are about the nodes of all pools: so a single object of
    another environment is enough, though there may be some of `environment` as well.
    """
    for what, other in _labelled(api):
        if other != environment:
            raise OtherEnvironmentError(
                f"{what} in this cluster belongs to environment {other}, and {environment} would take "
                f"it over; nothing was changed. Use the file of {other}, use {environment}'s own "
                f"cluster (cluster.kubeContext), or destroy {other} first: gpupool destroy {other}"
            )


def _labelled(api: KubeApi) -> Iterator[tuple[str, str]]:
    """What carries an environment's name, and that name."""
    for api_version, kind, namespace in _KINDS:
        for live in api.list(api_version, kind, namespace, OURS):
            yield f"{kind} {_where(live)}", environment_of(live)
    # Where others run the operator, its policy has no label, but the settings that it names have. Maps that
    # nothing names may be left of an environment that has gone.
    place = operator_place(api.list("nvidia.com/v1", "ClusterPolicy"))
    for name in sorted(repartition_mark.in_force(api)):
        named = api.get("v1", "ConfigMap", name, place.namespace if place else OPERATOR_NAMESPACE)
        if named is not None and (owner := environment_of(named)):
            yield f"ConfigMap {_where(named)}", owner
    begun = repartition_mark.find(api)
    if begun is not None:
        yield f"the repartition of pool {begun.pool} that has begun", begun.environment


def _where(live: Mapping[str, Any]) -> str:
    meta = live["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])
