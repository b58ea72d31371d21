"""Whose cluster it is. In a cluster of another environment nothing is to be compared, and nothing mended."""

from __future__ import annotations

from collections.abc import Iterator

from generators.metadata import MANAGED_BY
from gpupool.cluster.snapshot import Object, labels
from gpupool.drift.drift import Drift
from gpupool.drift.sight import Sight
from gpupool.plan.model import ENVIRONMENT_LABEL, OPERATOR_NAMESPACE, SYSTEM_NAMESPACE


def of_another(sight: Sight) -> Drift | None:
    """The one thing to tell where the cluster was applied from the file of another environment and nothing of
    it from this one's; None where it was not."""
    found = {
        labels(thing).get(ENVIRONMENT_LABEL, "")
        for thing in _telling(sight)
        if labels(thing).get(MANAGED_BY) == "gpupool"
    } - {""}
    if not found or sight.plan.environment in found:
        return None
    names = " and ".join(sorted(found))
    return Drift(
        layer="objects",
        kind="other-environment",
        object=f"environment {sight.plan.environment}",
        path=f"metadata.labels[{ENVIRONMENT_LABEL}]",
        wanted=sight.plan.environment,
        found=names,
        reason=f"this cluster is of environment {names}, whose objects {sight.plan.environment} may not take "
        "over; nothing else was compared",
        repair=f"use the file of {names} (gpupool assert {min(found)}), or choose the cluster of "
        f"{sight.plan.environment}",
    )


def _telling(sight: Sight) -> Iterator[Object]:
    """What an applied environment always has some of, and a destroyed one nothing."""
    yield from sight.snapshot.of("karpenter.sh/v1", "NodePool")
    for thing in sight.snapshot.of("v1", "ConfigMap"):
        if thing["metadata"].get("namespace") == OPERATOR_NAMESPACE:
            yield thing
    system = sight.snapshot.find("v1", "Namespace", SYSTEM_NAMESPACE)
    if system is not None:
        yield system
