"""The MIG strategy: what each pool needs, and the one that the operator gives to the plugins of all nodes.

The chart writes an empty `mig.strategy` as `mig: null`, which server-side apply refuses, so one is always
named. The operator makes it the variable MIG_STRATEGY of device plugin, GPU feature discovery and MPS daemon,
where it goes before the node's configuration. `mixed` counts unpartitioned GPUs as `none` does, but a plugin
that shares with MPS does not start with it.

Sources: gpu-operator v26.7.0, templates/clusterpolicy.yaml and controllers/object_controls.go
(applyMIGConfiguration); k8s-device-plugin v0.19.0, cmd/nvidia-device-plugin/main.go (validateFlags) and
internal/rm/device_map.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from gpupool.environment.plan.model import Pool
from gpupool.environment.spec.yaml_source import value_at

Strategy = Literal["none", "mixed"]

OWN_START = "unset MIG_STRATEGY; exec /bin/entrypoint.sh"
"""Command of the device plugin's container, which a shell runs; the chart's own is the script alone (assets/
state-device-plugin of gpu-operator v25.3.2 to v26.7.0)."""

PER_NODE: Mapping[str, Any] = {"mig": {"strategy": "mixed"}, "devicePlugin": {"args": [OWN_START]}}
"""Settings with which each node's configuration decides, whatever pools there are."""


def of_pool(pool: Pool) -> Strategy:
    """Mixed names the profile in the resource, so that no pod lands on a whole GPU by mistake."""
    return "mixed" if pool.sharing.layout else "none"


def chart_values(pools: Sequence[Pool]) -> dict[str, Any]:
    """The strategy of the operator; with partitioned pools beside pools with MPS also a start of the device
    plugin that leaves it to the node's configuration."""
    partitioned = any(pool.sharing.layout for pool in pools)
    chosen = {"mig": {"strategy": "mixed" if partitioned else "none"}}
    return dict(PER_NODE) if any(overridden(pool, chosen) for pool in pools) else chosen


def overridden(pool: Pool, settings: Any) -> bool:
    """Whether the operator's settings (Helm values, or a ClusterPolicy's spec) keep the device plugin from
    offering what the pool's configuration says."""
    strategy = value_at(settings, ("mig", "strategy"))
    if not strategy or value_at(settings, ("devicePlugin", "args")) == [OWN_START]:
        return False
    return bool(
        strategy != "mixed" if pool.sharing.layout else strategy == "mixed" and pool.sharing.has_daemon
    )
