"""What GPU feature discovery says about a node: labels. Pure, no I/O.

Rules: GPU feature discovery of k8s-device-plugin v0.19.0 and v0.20.0 (internal/lm). The same cases are put to
the real one in tests/nvidia. It knows nothing of the device plugin, which may fail where it does not. Not
written: `gpu.clique`, since the catalog doesn't say which machines share a fabric, copy engines of instances,
which it doesn't have either, and the timestamp.
"""

from __future__ import annotations

from gpupool.environment.catalog.models import Mig, Profile
from gpupool.local.operator import names
from gpupool.local.operator.hardware import Hardware
from gpupool.local.operator.mig_config import Layout
from gpupool.local.operator.plugin_config import PluginConfig

_CUDA = "13.1"
"""The CUDA version that the driver branch 595 brings."""
_ENGINES = {"nvdec": "decoder", "nvenc": "encoder", "jpeg": "jpeg", "ofa": "ofa"}
"""The catalog's name of a media engine -> the label's."""


class DiscoveryFailure(Exception):
    """Feature discovery ends with an error; the labels that it wrote before stay."""


def discover(
    hardware: Hardware, layouts: list[Layout], config: PluginConfig, strategy: str, driver: str
) -> dict[str, str]:
    """Labels of a node with these GPUs, partitioned and shared like this. Raises DiscoveryFailure."""
    partitioned = [layout for layout in layouts if layout is not None]
    if config.sharing == "mps" and partitioned:
        raise DiscoveryFailure("feature discovery: MPS sharing is not supported for mig devices")
    labels = _node_labels(hardware, config, driver)
    labels |= _gpu_labels(hardware, layouts, config)
    if strategy != "none":
        labels["nvidia.com/mig.strategy"] = strategy
    if strategy == "single" and partitioned:
        labels |= _single_labels(hardware, layouts, config)
    if strategy == "mixed":
        for profile in sorted({name for layout in partitioned for name in layout}):
            count = sum(layout.get(profile, 0) for layout in partitioned)
            labels |= _profile_labels(hardware, names.mig_resource(profile), profile, count, config)
    return labels


def _node_labels(hardware: Hardware, config: PluginConfig, driver: str) -> dict[str, str]:
    """What does not depend on how the GPUs are partitioned."""
    labels = {
        "gpu.machine": hardware.machine or "unknown",
        "gpu.mode": "compute",
        "mig.capable": str(hardware.model.mig is not None).lower(),
        "mps.capable": str(config.sharing == "mps").lower(),
        "vgpu.present": "false",
    }
    return {f"nvidia.com/{key}": value for key, value in (labels | _version_labels(driver)).items()}


def _gpu_labels(hardware: Hardware, layouts: list[Layout], config: PluginConfig) -> dict[str, str]:
    """The labels of whole GPUs: those in MIG mode are counted, and as shared only the others."""
    model = hardware.model
    major, minor = model.compute_capability.split(".")
    shared = config if any(layout is None for layout in layouts) else None
    values = _base(names.GPU, len(layouts), model.product_labels[0], shared)
    values |= {
        "memory": str(hardware.memory_mib),
        "family": model.architecture,
        "compute.major": major,
        "compute.minor": minor,
    }
    return {f"{names.GPU}.{key}": value for key, value in values.items()}


def _base(resource: str, count: int, product: str, config: PluginConfig | None) -> dict[str, str]:
    """What a resource is called and how it is shared; `config` None where sharing does not apply to it."""
    replicas = 0 if config is None else config.replicas.get(resource, 1)
    shared = config is not None and replicas > 1
    return {
        "product": product + ("-SHARED" if config and shared and not config.rename else ""),
        "count": str(count),
        "replicas": str(replicas),
        "sharing-strategy": config.sharing if config and shared else "none",
    }


def _single_labels(hardware: Hardware, layouts: list[Layout], config: PluginConfig) -> dict[str, str]:
    """The labels of instances that are advertised as GPUs; one kind on every GPU, or they are invalid."""
    kinds = {profile for layout in layouts for profile in layout or {}}
    if len(kinds) == 1 and all(layouts):
        profile = next(iter(kinds))
        count = sum((layout or {})[profile] for layout in layouts)
        return _profile_labels(hardware, names.GPU, profile, count, config)
    product = f"{hardware.model.product_labels[0]}-MIG-INVALID"
    values = {"product": product, "count": "0", "replicas": "0", "sharing-strategy": "", "memory": "0"}
    return {f"{names.GPU}.{key}": value for key, value in values.items()}


def _version_labels(driver: str) -> dict[str, str]:
    """The versions of driver and CUDA, under the names of today and the deprecated ones."""
    major, minor, revision = (*driver.split("."), "", "")[:3]
    cuda_major, cuda_minor = _CUDA.split(".")
    return {
        "cuda.driver-version.full": driver,
        "cuda.driver-version.major": major,
        "cuda.driver-version.minor": minor,
        "cuda.driver-version.revision": revision,
        "cuda.runtime-version.full": _CUDA,
        "cuda.runtime-version.major": cuda_major,
        "cuda.runtime-version.minor": cuda_minor,
        "cuda.driver.major": major,
        "cuda.driver.minor": minor,
        "cuda.driver.rev": revision,
        "cuda.runtime.major": cuda_major,
        "cuda.runtime.minor": cuda_minor,
    }


def _profile_labels(
    hardware: Hardware, resource: str, name: str, count: int, config: PluginConfig
) -> dict[str, str]:
    """The labels of the instances of one profile."""
    mig = hardware.model.mig
    assert mig is not None
    profile = mig.profile(name)
    product = f"{hardware.model.product_labels[0]}-MIG-{name.replace('+', '.')}"
    values = _base(resource, count, product, config) | {"memory": str(_memory(hardware, mig, profile))}
    values["slices.gi"] = values["slices.ci"] = str(profile.compute_slices)
    if profile.sm is not None:
        values["multiprocessors"] = str(profile.sm)
    for engine, engines in (profile.engines or {}).items():
        values[f"engines.{_ENGINES[engine]}"] = str(engines)
    return {f"{resource}.{key}": value for key, value in values.items()}


def _memory(hardware: Hardware, mig: Mig, profile: Profile) -> int:
    """MiB of one instance; its share of the GPU where that is not published, and never more."""
    share = hardware.memory_mib * profile.size // mig.slots
    return share if profile.memory_gib is None else min(round(profile.memory_gib * 1024), share)
