"""Facts of clouds, each with its source and date: what EBS makes, which images EKS has, how GKE shares GPUs.

The facts are in `cloud_facts.yaml`; this is their only reader. Prices and machines are the catalog's
(`gpupool.environment.catalog`), and what a release of the GPU Operator has is
`gpupool.environment.plan.operator_releases`'.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import yaml

_FILE = Path(__file__).parent / "cloud_facts.yaml"


@dataclass(frozen=True, slots=True)
class CloudFact:
    """Where a fact is from. Clouds raise bounds, so what refuses because of one says how old it is."""

    source: str
    date: date
    """When the source was read."""

    @property
    def why(self) -> str:
        """For the end of a remediation."""
        return f"(source: {self.source}; read {self.date.isoformat()})"


@dataclass(frozen=True, slots=True)
class VolumeFact(CloudFact):
    """What EBS makes of a volume type. Ranges are least and most."""

    size_gib: tuple[int, int]
    iops: tuple[int, int] | None
    """None: they follow from the size."""
    iops_per_gib: int
    """Most operations a second for each GiB; 0 where `iops` is None."""
    iops_by_default: int | None
    """What a volume has without asking; None where it must ask."""
    throughput: tuple[int, int] | None
    """MiB a second; None where there is nothing to set."""
    throughput_per_iops: float
    """Most MiB a second for each operation a second."""


@dataclass(frozen=True, slots=True)
class BoundFact(CloudFact):
    """A fact of one value, or of a range."""

    value: Any


@functools.cache
def volumes() -> dict[str, VolumeFact]:
    """By EBS volume type. Cached."""
    return {name: _volume(row) for name, row in _data()["volumes"].items()}


@functools.cache
def bound(name: str) -> BoundFact:
    """The fact of that name. Raises KeyError. Cached."""
    row = _data()["bounds"][name]
    value = tuple(row["value"]) if isinstance(row["value"], list) else row["value"]
    return BoundFact(row["source"], row["date"], value)


def pinned_image() -> str:
    """The alias of Amazon's images, family@version, that gpupool proposes as karpenter.amiAlias."""
    return str(bound("pinnedImage").value)


def _volume(row: dict[str, Any]) -> VolumeFact:
    least_gib, most_gib = row["sizeGib"]
    needs = row.get("needsIops", False)
    return VolumeFact(
        row["source"],
        row["date"],
        (least_gib, most_gib),
        _range(row.get("iops")),
        row.get("iopsPerGib", 0),
        None if needs else row.get("iopsByDefault"),
        _range(row.get("throughput")),
        row.get("throughputPerIops", 0.0),
    )


def _range(pair: list[int] | None) -> tuple[int, int] | None:
    return (pair[0], pair[1]) if pair else None


@functools.cache
def _data() -> dict[str, Any]:
    data: dict[str, Any] = yaml.load(_FILE.read_bytes(), Loader=yaml.CSafeLoader)
    return data
