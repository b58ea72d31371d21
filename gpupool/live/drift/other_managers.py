"""Other tools that change the environment's objects: two that deliver the same, and settings that compete."""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.environment.plan.delivery import ENGINE_FACTS
from gpupool.findings import Category
from gpupool.live.drift import repair
from gpupool.live.drift.drift import Drift
from gpupool.live.drift.drift_input import DriftInput
from gpupool.live.objects.managed_fields import managers

_DELIVERERS = {
    **{manager: engine.title for engine in ENGINE_FACTS.values() for manager in engine.managers},
    "helm": "Helm",
    "pulumi-kubernetes": "another Pulumi program",
    "Terraform": "Terraform",
    "gpupool": "gpupool up",
}
"""Field managers of tools that put back what they deliver (their documentation on server-side apply)."""
_SHOWN = 3


def check(inputs: DriftInput) -> Iterator[Drift]:
    """Objects that two tools deliver, and a second ClusterPolicy."""
    fought: dict[str, list[str]] = {}
    for manifest in inputs.bundle:
        if manifest.patch:
            continue
        live = inputs.live(manifest.body)
        found = managers(live) if live else frozenset()
        for manager in found & _DELIVERERS.keys() - inputs.deliverers:
            fought.setdefault(manager, []).append(str(manifest))
    for manager, names in sorted(fought.items()):
        shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if names[_SHOWN:] else "")
        yield Drift(
            layer="others",
            code="two-deliverers",
            object=f"{len(names)} object{'s' if len(names) != 1 else ''}",
            by=manager,
            what=f"{_DELIVERERS[manager]} ({manager}) also sets fields that this environment sets, "
            f"and each will revert the other: {shown}",
            remediation="use only one of them: set delivery.engine in the file",
            category=Category.warning,
        )
    yield from _second_policy(inputs)


def _second_policy(inputs: DriftInput) -> Iterator[Drift]:
    ours = next((m.name for m in inputs.bundle if m.kind == "ClusterPolicy"), None)
    for row in inputs.snapshot.of("nvidia.com/v1", "ClusterPolicy"):
        name = row["metadata"]["name"]
        if ours is not None and name != ours:
            yield Drift(
                layer="others",
                code="second-cluster-policy",
                object=f"ClusterPolicy {name}",
                what=f"{ours} already exists: the operator uses the oldest and ignores the others",
                remediation=repair.delete("clusterpolicy", name),
            )
