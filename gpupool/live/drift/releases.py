"""The charts that the file installs are there in the file's release, as far as their workloads show.

A chart's own record is a Secret, which is not needed for this: label helm.sh/chart of the workload
has chart and version (Helm best practices, labels).
"""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.generators.manifest import HelmRelease
from gpupool.live.cluster.karpenter_gates import is_on
from gpupool.live.cluster.snapshot import labels
from gpupool.live.drift.drift import Drift
from gpupool.live.drift.drift_input import DriftInput
from gpupool.live.drift.operator_view import OperatorView

CHART = "helm.sh/chart"


def check(inputs: DriftInput) -> Iterator[Drift]:
    """Presence, version, and what Karpenter's gate says."""
    for release in inputs.bundle.releases:
        live = inputs.snapshot.find("apps/v1", "Deployment", release.name, release.namespace)
        if live is None:
            reason = f"chart {release.chart} {release.version} is missing: no Deployment {release.name}"
            yield _drift(inputs, release, "release-missing", reason)
            continue
        chart = labels(live).get(CHART, "")
        if chart and chart.removeprefix(f"{release.chart}-").removeprefix("v") != release.version.lstrip("v"):
            reason = f"the cluster has {chart}, the file {release.chart} {release.version}"
            yield _drift(inputs, release, "release-version", reason)
        if release.chart == "karpenter" and not is_on(live, "NodeOverlay"):
            reason = "Karpenter runs without the NodeOverlay gate and counts physical GPUs"
            yield _drift(inputs, release, "gate-off", reason)
        if release.chart == "gpu-operator":
            yield from _settings(inputs, release)


def _settings(inputs: DriftInput, release: HelmRelease) -> Iterator[Drift]:
    """What the chart makes of its values: pointed at our configurations, before any node shows it."""
    view = OperatorView(inputs)
    foreign = view.foreign_config()
    if foreign:
        yield Drift(
            layer="objects",
            code="operator-settings",
            object=f"ClusterPolicy {view.policy_name}",
            what=foreign,
            remediation=inputs.restore(release),
        )


def _drift(inputs: DriftInput, release: HelmRelease, kind: str, reason: str) -> Drift:
    return Drift(
        layer="objects",
        code=kind,
        object=f"Release {release.namespace}/{release.name}",
        what=reason,
        remediation=inputs.restore(release),
    )
