"""What each release of the NVIDIA GPU Operator brings, and what a pool would miss with one.

The facts are in `operator_releases.yaml`; this is their only reader. It knows versions, not Helm values,
and nothing of environments.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpupool.environment.catalog.models import GpuModel
from gpupool.environment.sharing import Sharing, SharingProblem

_FILE = Path(__file__).parent / "operator_releases.yaml"

_PLAIN = re.compile(r"v?[0-9]+(\.[0-9]+)*")
"""A version that is numbers alone: v26.7.0-rc.1 is another release than v26.7.0."""

MIG_VARIANTS_APART = "mig-variants-apart"
"""The feature that distinguishes instances with `-me`, `+me.all` or `+gfx` from plain ones."""
CDI_BY_DEFAULT = "cdi-by-default"
"""The feature that containers get GPUs by CDI unless the operator is configured otherwise."""


@dataclass(frozen=True, slots=True)
class OperatorRelease:
    """One release of the GPU Operator. None means that no source has it, so nothing may be refused because of
    it.
    """

    version: str
    """With the leading v, which is also the version of the Helm chart."""
    driver: str | None
    """NVIDIA driver that it installs by default."""
    device_plugin: str
    mig_manager: str
    features: frozenset[str]
    """Names of the features that its parts have."""


@dataclass(frozen=True, slots=True)
class OperatorReleases:
    """The releases that gpupool knows, newest first."""

    tested: str
    """The release that gpupool is tested with; the default of `gpuOperator.version`."""
    chart_values: list[str]
    """Top-level values of its chart."""
    releases: Mapping[str, OperatorRelease]

    def has(self, version: str, feature: str) -> bool:
        """Whether a release has a feature; an unknown one, which is a newer one, counts as the tested one."""
        return feature in self.releases.get(version, self.releases[self.tested]).features

    def spelled_otherwise(self, version: str) -> OperatorRelease | None:
        """The release that `version` names in other words than the chart, such as 26.7.0 or v26.7; None where
        it is spelled as the chart has it, or is not a release that is known."""
        if version in self.releases or not _PLAIN.fullmatch(version):
            return None
        wanted = _significant(version)
        return next((one for name, one in self.releases.items() if _significant(name) == wanted), None)


@functools.cache
def load_operator_releases() -> OperatorReleases:
    """The releases in `operator_releases.yaml`. Cached."""
    data = yaml.load(_FILE.read_bytes(), Loader=yaml.CSafeLoader)
    rows = [_release(row, data["features"]) for row in data["releases"]]
    return OperatorReleases(
        data["tested"], data["chartValues"], {release.version: release for release in rows}
    )


def _release(row: dict[str, Any], features: list[dict[str, Any]]) -> OperatorRelease:
    parts = ("devicePlugin", "migManager")
    present = frozenset(
        feature["name"]
        for feature in features
        if all(version_key(row[part]) >= version_key(feature[part]) for part in parts if part in feature)
    )
    return OperatorRelease(
        version=row["version"],
        driver=row["driver"],
        device_plugin=row["devicePlugin"],
        mig_manager=row["migManager"],
        features=present,
    )


def version_key(version: str) -> tuple[int, ...]:
    """Numbers of a version, for comparing: `v26.7.0` -> (26, 7, 0), `595.91.07` -> (595, 91, 7). A missing
    patch counts as the lowest, so a bare driver branch is below all its releases.
    """
    return tuple(int(number) for number in re.findall(r"\d+", version))


def _significant(version: str) -> tuple[int, ...]:
    """The numbers of a version without the zeros at its end, which may be left out."""
    numbers = list(version_key(version))
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def driver_problems(driver: str, gpu: GpuModel, sharing: Sharing) -> list[SharingProblem]:
    """What `gpu`, shared so, misses with driver version `driver` (e.g. 595.91.07)."""
    found = version_key(driver)
    last = gpu.driver_last_branch
    if last is not None and found[0] > last:
        remediation = (
            f"the last branch that supports it is {last}; set gpuOperator.driver.version to one of "
            "its releases"
        )
        return [SharingProblem(f"driver {driver} no longer supports the {gpu.title}", remediation)]
    needs = [(gpu.driver_minimum, f"the {gpu.title}")]
    if sharing.layout and gpu.mig is not None:
        needs.append((gpu.mig.driver_minimum or gpu.driver_minimum, f"MIG on the {gpu.title}"))
        for name in sharing.layout:
            profile = next((one for one in gpu.mig.profiles if name in (one.name, *one.aliases)), None)
            if profile is not None and profile.driver_minimum is not None:
                needs.append((profile.driver_minimum, f"profile {name} on the {gpu.title}"))
    return [
        SharingProblem(f"driver {driver} is too old for {what}", f"it needs {minimum} or newer")
        for minimum, what in needs
        if minimum is not None and found < version_key(minimum)
    ]


def release_problems(release: OperatorRelease, gpu: GpuModel, sharing: Sharing) -> list[SharingProblem]:
    """What `gpu`, shared so, misses with the parts of `release`; its driver is `driver_problems`."""
    if gpu.mig is None or MIG_VARIANTS_APART in release.features:
        return []
    merged = [name for name in sharing.layout if "+" in name or "-" in name]
    return [
        SharingProblem(
            f"device plugin {release.device_plugin} of GPU Operator {release.version} "
            f"treats {name} as the plain profile",
            "use a release with device plugin v0.20.0 or newer",
        )
        for name in merged
    ]
