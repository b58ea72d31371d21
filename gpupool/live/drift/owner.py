"""Which environment owns the cluster. In a cluster of another environment nothing is compared or fixed."""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.environment.plan.model import ENVIRONMENT_LABEL, SYSTEM_NAMESPACE
from gpupool.environment.plan.operator_place import is_operator_map
from gpupool.live.cluster.snapshot import Object
from gpupool.live.drift.drift import Drift
from gpupool.live.drift.drift_input import DriftInput
from gpupool.live.objects.owner import environment_of


def of_another(inputs: DriftInput) -> Drift | None:
    """The only difference to report where the cluster was applied from another environment's file and not
    from this one's; None otherwise."""
    environments = set(map(environment_of, _claiming(inputs))) - {""}
    if not environments or inputs.plan.environment in environments:
        return None
    names = " and ".join(sorted(environments))
    return Drift(
        layer="objects",
        code="other-environment",
        object=f"environment {inputs.plan.environment}",
        path=f"metadata.labels[{ENVIRONMENT_LABEL}]",
        wanted=inputs.plan.environment,
        found=names,
        what=f"this cluster belongs to environment {names}; {inputs.plan.environment} must not take over "
        "its objects; nothing else was compared",
        remediation=f"use the file of {names} (gpupool assert {min(environments)}), or use the cluster of "
        f"{inputs.plan.environment}",
    )


def _claiming(inputs: DriftInput) -> Iterator[Object]:
    """Objects of which an applied environment always has some, and a destroyed one none."""
    yield from inputs.snapshot.of("karpenter.sh/v1", "NodePool")
    for thing in inputs.snapshot.of("v1", "ConfigMap"):
        if is_operator_map("ConfigMap", thing["metadata"]["name"]):
            yield thing
    system = inputs.snapshot.find("v1", "Namespace", SYSTEM_NAMESPACE)
    if system is not None:
        yield system
