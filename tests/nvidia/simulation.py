"""What the simulated operator says of a node that NVIDIA's programs are tried on."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from gpupool.local.operator import plugin_config
from gpupool.local.operator.advertise import PluginFailure, advertise
from gpupool.local.operator.discovery import DiscoveryFailure, discover
from gpupool.local.operator.hardware import Hardware
from tests.nvidia.node import DRIVER, Cards

_UNKNOWN = ("engines.", "multiprocessors")
"""Labels of instances that the catalog may not have; the NVML library says 0 there."""


@dataclass(frozen=True)
class Simulated:
    """None where the operand ends with an error."""

    offered: dict[str, int] | None
    labels: dict[str, str] | None

    def without_unknown(self, found: dict[str, str] | None) -> dict[str, str] | None:
        """Labels but for those of which the catalog doesn't have the facts."""
        if found is None or self.labels is None:
            return found
        extra = found.keys() - self.labels.keys()
        unknown = {key for key in extra if any(part in key for part in _UNKNOWN)}
        return {key: value for key, value in found.items() if key not in unknown}


def of(cards: Cards, text: str, strategy: str | None) -> Simulated:
    """With this configuration of the device plugin; `strategy` is the operator's own, where it has one."""
    hardware = Hardware(cards.model, len(cards.layouts), cards.memory, "unknown")
    config = plugin_config.parse(text)
    layouts = [None if layout is None else dict(layout) for layout in cards.layouts]
    chosen = strategy or config.mig_strategy or "none"
    offered: dict[str, int] | None = None
    labels: dict[str, str] | None = None
    with suppress(PluginFailure):
        # A kubelet keeps what is gone at zero, so the simulated operator writes that too.
        offered = {key: count for key, count in advertise(hardware, layouts, config, chosen).items() if count}
    with suppress(DiscoveryFailure):
        labels = discover(hardware, layouts, config, chosen, DRIVER)
    return Simulated(offered, labels)
