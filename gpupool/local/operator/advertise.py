"""What device plugin and feature discovery say about a node: resources and labels. Pure, no I/O.

Rules: k8s-device-plugin v0.20.0 (what is advertised under each MIG strategy and sharing method) and the
labels of GPU feature discovery of the same version.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from gpupool.local.operator import names
from gpupool.local.operator.hardware import Hardware
from gpupool.local.operator.mig_config import Layout
from gpupool.local.operator.plugin_config import PluginConfig

_CUDA = "13.1"
"""The CUDA version that the driver branch 595 brings."""


class PluginFailure(Exception):
    """The plugin can't serve this node as configured; it crashes and advertises nothing."""


@dataclass(frozen=True)
class Advertised:
    """The outcome for one node."""

    resources: dict[str, int]
    labels: dict[str, str]


def advertise(
    hardware: Hardware, layouts: list[Layout], config: PluginConfig, strategy: str, driver: str
) -> Advertised:
    """Resources and labels of a node with these GPUs, partitioned and shared like this.

    Raises PluginFailure where the real plugin ends with an error instead of registering.
    """
    devices = _devices(layouts, strategy)
    if config.sharing == "mps":
        if any(layout is not None for layout in layouts):
            raise PluginFailure("MPS sharing is not supported on GPUs in MIG mode")
        if config.replicas.get(names.GPU, 0) > hardware.model.mps_clients:
            raise PluginFailure(
                f"an MPS server of the {hardware.model.title} takes {hardware.model.mps_clients} clients"
            )
    resources: dict[str, int] = {}
    for name, count in devices.items():
        replicas = config.replicas.get(name, 1)
        if config.rename and replicas > 1:
            resources[name] = 0
            resources[name + names.SHARED_SUFFIX] = count * replicas
        else:
            resources[name] = count * replicas
    labels = _gpu_labels(hardware, layouts, config, strategy, driver)
    if strategy == "mixed":
        for layout in layouts:
            for profile in layout or {}:
                labels |= _profile_labels(hardware, layouts, profile, config)
    return Advertised(resources, labels)


def _devices(layouts: list[Layout], strategy: str) -> dict[str, int]:
    """Unshared devices by resource name."""
    whole = sum(1 for layout in layouts if layout is None)
    if strategy == "none":
        return {names.GPU: len(layouts)}
    if strategy == "mixed":
        counts: Counter[str] = Counter({names.GPU: whole})
        for layout in layouts:
            for profile, count in (layout or {}).items():
                counts[_resource(profile)] += count
        return dict(counts)
    if whole == len(layouts):
        return {names.GPU: whole}
    kinds = {profile for layout in layouts for profile in layout or {}}
    if whole or len(kinds) != 1 or any(not layout for layout in layouts):
        raise PluginFailure("MIG strategy single needs the same one profile on every GPU of the node")
    return {names.GPU: sum(sum((layout or {}).values()) for layout in layouts)}


def _resource(profile: str) -> str:
    return names.MIG_PREFIX + profile.replace("+", ".")


def _gpu_labels(
    hardware: Hardware, layouts: list[Layout], config: PluginConfig, strategy: str, driver: str
) -> dict[str, str]:
    model = hardware.model
    replicas = config.replicas.get(names.GPU, 1)
    shared = replicas > 1
    product, count, memory = model.product_labels[0], len(layouts), float(hardware.memory_mib)
    partitioned = any(layout is not None for layout in layouts)
    if strategy == "single" and partitioned:
        profile = next(iter(layouts[0] or {}))
        product += f"-MIG-{profile.replace('+', '.')}"
        count = sum(sum((layout or {}).values()) for layout in layouts)
        memory = _profile_memory(hardware, profile)
    if shared and not config.rename:
        product += "-SHARED"
    if strategy == "mixed" and partitioned and all(layout is not None for layout in layouts):
        replicas = 0
    major, minor = model.compute_capability.split(".")
    labels = {
        "gpu.present": "true",
        "gpu.product": product,
        "gpu.count": str(count),
        "gpu.memory": f"{memory:.0f}",
        "gpu.replicas": str(replicas),
        "gpu.sharing-strategy": config.sharing if shared else "none",
        "gpu.family": model.architecture,
        "gpu.compute.major": major,
        "gpu.compute.minor": minor,
        "gpu.machine": hardware.machine or "unknown",
        "gpu.mode": "compute",
        "mig.capable": str(model.mig is not None).lower(),
        "mig.strategy": strategy,
        "mps.capable": str(config.sharing == "mps" and shared).lower(),
        "vgpu.present": "false",
    }
    return {f"nvidia.com/{key}": value for key, value in (labels | _version_labels(driver)).items()}


def _version_labels(driver: str) -> dict[str, str]:
    """The versions of driver and CUDA; parts that a version does not have read as 0 or nothing."""
    parts = driver.split(".")
    return {
        "cuda.driver-version.full": driver,
        "cuda.driver-version.major": parts[0],
        "cuda.driver-version.minor": parts[1] if len(parts) > 1 else "0",
        "cuda.driver-version.revision": parts[2] if len(parts) > 2 else "",
        "cuda.runtime-version.full": _CUDA,
        "cuda.runtime-version.major": _CUDA.split(".")[0],
        "cuda.runtime-version.minor": _CUDA.split(".")[1],
    }


def _profile_labels(
    hardware: Hardware, layouts: list[Layout], profile: str, config: PluginConfig
) -> dict[str, str]:
    """The labels of one profile under the mixed strategy."""
    resource = _resource(profile)
    replicas = config.replicas.get(resource, 1)
    product = f"{hardware.model.product_labels[0]}-MIG-{profile.replace('+', '.')}"
    labels = {
        "count": str(sum((layout or {}).get(profile, 0) for layout in layouts)),
        "memory": f"{_profile_memory(hardware, profile):.0f}",
        "product": product + ("-SHARED" if replicas > 1 and not config.rename else ""),
        "replicas": str(replicas),
        "sharing-strategy": config.sharing if replicas > 1 else "none",
    }
    facts = hardware.model.mig.profile(profile) if hardware.model.mig else None
    if facts is not None:
        labels["slices.gi"] = labels["slices.ci"] = str(facts.compute_slices)
        if facts.sm is not None:
            labels["multiprocessors"] = str(facts.sm)
    return {f"{resource}.{key}": value for key, value in labels.items()}


def _profile_memory(hardware: Hardware, profile: str) -> float:
    """MiB of one instance; its share of the memory slices where it is not published."""
    mig = hardware.model.mig
    if mig is None:
        return 0.0
    facts = mig.profile(profile)
    if facts.memory_gib is not None:
        return facts.memory_gib * 1024
    return hardware.memory_mib * facts.size / mig.slots
