"""What the device plugin offers of a node's GPUs: resources and how many. Pure, no I/O.

Rules: k8s-device-plugin v0.19.0 and v0.20.0 (MIG strategies, sharing methods). The same cases are put to the
real plugin in tests/nvidia.
"""

from __future__ import annotations

from collections import Counter

from gpupool.local.operator import names
from gpupool.local.operator.hardware import Hardware
from gpupool.local.operator.mig_config import Layout
from gpupool.local.operator.plugin_config import PluginConfig


class PluginFailure(Exception):
    """The plugin can't serve this node as configured; it crashes and advertises nothing."""


def advertise(
    hardware: Hardware, layouts: list[Layout], config: PluginConfig, strategy: str
) -> dict[str, int]:
    """Resources of a node with these GPUs, partitioned and shared like this.

    Raises PluginFailure where the real plugin ends with an error instead of registering.
    """
    devices = _devices(layouts, strategy)
    if config.sharing == "mps":
        if strategy == "mixed":
            raise PluginFailure("using --mig-strategy=mixed is not supported with MPS")
        if strategy == "single" and any(layouts):
            raise PluginFailure("sharing using MPS is not supported for MIG devices")
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
    return resources


def _devices(layouts: list[Layout], strategy: str) -> dict[str, int]:
    """Unshared devices by resource name."""
    whole = sum(1 for layout in layouts if layout is None)
    if strategy == "none":
        return {names.GPU: len(layouts)}
    if strategy == "mixed":
        counts: Counter[str] = Counter({names.GPU: whole})
        for layout in layouts:
            for profile, count in (layout or {}).items():
                counts[names.mig_resource(profile)] += count
        return dict(counts)
    if whole == len(layouts):
        return {names.GPU: whole}
    kinds = {profile for layout in layouts for profile in layout or {}}
    if whole or len(kinds) != 1 or any(not layout for layout in layouts):
        raise PluginFailure("MIG strategy single needs the same one profile on every GPU of the node")
    return {names.GPU: sum(sum((layout or {}).values()) for layout in layouts)}
