"""The GPU catalog: every model that ships with gpupool, read from its file.

One file per model, `gpupool/environment/catalog/<key>.yaml`, with the fields of
`gpupool.environment.catalog.gpu_file`; nothing else lists the models, so adding one is adding a file. This
module is the only reader of those files; what a project adds is read by
`gpupool.environment.catalog.project`.

Files are parsed when first asked for: `load_catalog()["t4"]` reads one file, `owner()` and iteration over
values read them all.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import yaml

from gpupool.environment.catalog.models import (
    CatalogError,
    GpuModel,
    InstanceType,
    Mig,
    OtherVendorError,
    Profile,
    Source,
)

_FOLDER = Path(__file__).parent
_UNUSABLE = Path(__file__).parent / "instances" / "unusable.yaml"

_MPS_CLIENTS = 48
"""Clients of one MPS server (k8s-device-plugin v0.19.0, cmd/mps-control-daemon/mps/device.go)."""
_MPS_CLIENTS_BEFORE_TURING = 16
"""The same, before compute capability 7.5. CUDA itself serves 48 on Volta too (NVIDIA Multi-Process Service
guide, r570), but the daemon of the device plugin does not start with more than 16."""

T = TypeVar("T")
Data = dict[str, Any]


class _Models(Mapping[str, GpuModel]):
    """The catalog's files as a mapping from key to model, each parsed when first read."""

    def __init__(self, folder: Path) -> None:
        self._files = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
        self._read: dict[str, GpuModel] = {}

    def __getitem__(self, key: str) -> GpuModel:
        if key not in self._read:
            self._read[key] = model(key, _read_yaml(self._files[key]))
        return self._read[key]

    def __contains__(self, key: object) -> bool:
        return key in self._files

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


@dataclass(frozen=True, slots=True)
class Catalog:
    """Every GPU model there is a file for."""

    models: Mapping[str, GpuModel]
    unusable: Mapping[str, str]
    """Instance types, families and Karpenter's GPU names that no pool can use, and why."""
    broken: frozenset[str] = frozenset()
    """Keys of models whose file can't be used, which a finding says."""

    def __getitem__(self, key: str) -> GpuModel:
        """The model of that key. Raises CatalogError with the closest keys."""
        if key in self.broken:
            raise CatalogError(f"the file of GPU {key!r} can't be used", "correct it")
        if key in self.models:
            return self.models[key]
        refuse_other_vendors(key)
        close = [other for other in self.models if other.startswith(f"{key.lower()}-")]
        close = close or self._like(key)
        remediation = f"did you mean {' or '.join(close)}?" if close else "gpupool catalog lists all GPUs"
        raise CatalogError(f"GPU {key!r} is not in the catalog", remediation)

    def against(self, name: str) -> str:
        """Why no pool can use an instance type, a family or a GPU name; empty where one may."""
        return self.unusable.get(name) or self.unusable.get(name.partition(".")[0], "")

    def _like(self, key: str) -> list[str]:
        """Keys that differ from `key` by hyphens or a typing error; MI300X is too far from B300 to be one."""
        plain = {other.replace("-", ""): other for other in self.models}
        wanted = re.sub(r"[^a-z0-9]", "", key.lower())
        return [plain[name] for name in difflib.get_close_matches(wanted, plain, n=3, cutoff=0.72)]

    def owner(self, instance_type: str) -> GpuModel | None:
        """The model whose GPU an instance type carries; None for a type that the catalog doesn't know."""
        for model in self.models.values():
            if any(candidate.name == instance_type for candidate in model.instance_types):
                return model
        return None


@functools.cache
def load_catalog(folder: Path = _FOLDER) -> Catalog:
    """The catalog that ships with gpupool, or that of another folder. Cached: files are read once per
    process.
    """
    return Catalog(models=_Models(folder), unusable=_read_unusable())


def shipped_file(key: str) -> str:
    """The text of the file of a model that ships with gpupool. Raises FileNotFoundError for another key."""
    return (_FOLDER / f"{key}.yaml").read_text(encoding="utf-8")


def refuse_other_vendors(key: str) -> None:
    """Raises OtherVendorError where a GPU of AMD's or Intel's is called so."""
    name = re.sub(r"[^a-z0-9]+", "-", key.lower())
    for pattern, vendor in _other_vendors():
        if re.fullmatch(pattern, name):
            raise OtherVendorError(
                f"GPU {key!r} is a {vendor} GPU, but gpupool supports NVIDIA GPUs only",
                "GPUs of AMD and Intel use other operators, resource names and partitions: manage them "
                "separately",
            )


@functools.cache
def _other_vendors() -> tuple[tuple[str, str], ...]:
    groups = cast(Sequence[Data], _read_yaml(_UNUSABLE)["otherVendors"])
    return tuple((name, str(group["vendor"])) for group in groups for name in group["names"])


@functools.cache
def _read_unusable() -> Mapping[str, str]:
    groups = cast(Sequence[Data], _read_yaml(_UNUSABLE)["unusable"])
    kinds = ("instanceTypes", "families", "gpuNames")
    return {name: str(group["reason"]) for group in groups for kind in kinds for name in group.get(kind, ())}


def _read_yaml(path: Path) -> Data:
    return cast(Data, yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader))


_CALLED = {"id": "nvml_id", "max": "max_count", "compute": "compute_slices", "gib": "memory_gib"}
"""Keys whose attributes are not called as they are."""


@functools.cache
def _attribute(key: str) -> str:
    return _CALLED.get(key) or re.sub("[A-Z]", lambda big: f"_{big[0].lower()}", key)


def _made(kind: Callable[..., T], row: Data, **also: Any) -> T:
    """`row` of a file as a `kind`, with its lists as tuples; `also` goes before what the row says."""
    said = {_attribute(key): tuple(value) if isinstance(value, list) else value for key, value in row.items()}
    return kind(**(said | also))


def model(key: str, data: Data, own_file: str | None = None) -> GpuModel:
    """The model that the fields of one file describe; they are those of
    `gpupool.environment.catalog.gpu_file` and sound."""
    rest = dict(data)
    driver, mig, ratio = rest.pop("driver", None) or {}, rest.pop("mig", None), rest.pop("spotRatio", None)
    capability = tuple(int(part) for part in data["computeCapability"].split("."))
    machines = (
        _made(
            InstanceType,
            {"spotRatio": ratio, **row},
            gpu_memory_mib=row.get("gpuMemoryMib") or data["memoryMib"],
        )
        for row in data.get("instanceTypes", ())
    )
    return _made(
        GpuModel,
        rest,
        key=key,
        driver_minimum=driver.get("minimum"),
        driver_last_branch=driver.get("lastBranch"),
        mps_clients=data.get("mpsClients")
        or (_MPS_CLIENTS if capability >= (7, 5) else _MPS_CLIENTS_BEFORE_TURING),
        profiling=capability >= (7, 0) and data.get("profiling", True),
        mig=_made(Mig, mig, profiles=tuple(_made(Profile, row) for row in mig["profiles"])) if mig else None,
        instance_types=tuple(machines),
        sources=tuple(_made(Source, row) for row in data.get("sources", ())),
        own_file=own_file,
    )
