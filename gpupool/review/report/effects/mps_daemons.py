"""What a restart of the operator's daemonsets does to pools that share with MPS.

The operator gives the device plugin's configuration and the daemonsets' tolerations to the MPS control daemon
too (GPU Operator v26.7.0, TransformMPSControlDaemon), so the daemon restarts where the plugin does. No source
promises that pods that compute through it survive that: NVIDIA's MPS documentation lets clients of a
server that ends fail with a CUDA error. Every effect here is therefore one that may happen.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.environment.plan.model import Plan
from gpupool.generators.device_plugin import config_map_name as plugin_config
from gpupool.review.report.model import NodeEffect


def mps_pools(old: Plan, new: Plan) -> tuple[str, ...]:
    """Pools whose pods compute through an MPS daemon now and whose nodes are still managed."""
    kept = {pool.name for pool in new.pools}
    return tuple(pool.name for pool in old.pools if pool.sharing.has_daemon and pool.name in kept)


def but_for_mps(old: Plan, new: Plan) -> str:
    """What to add to a sentence that says that running pods stay; empty where it holds for all of them."""
    pools = mps_pools(old, new)
    return f" (perhaps not in {', '.join(pools)}: MPS)" if pools else ""


def effects(old: Plan, new: Plan, reasons: list[str], reshared: frozenset[str]) -> Iterator[NodeEffect]:
    """One effect for each MPS pool whose daemon may restart, for `reasons` and where its own configuration
    changes; other effects report `reshared` pools."""
    if plugin_config(old) != plugin_config(new):
        reasons = ["the device plugin's configuration changes", *reasons]
    pools = {pool.name: pool for pool in old.pools}
    for name in mps_pools(old, new) if reasons else ():
        if name in reshared:
            continue
        yield NodeEffect(
            "restarted",
            name,
            "; ".join(reasons),
            "the MPS control daemon may restart with the device plugin, one node at a time, and "
            "pods that use it may fail with a CUDA error; let jobs end first, or expect retries",
            nodes_max=pools[name].nodes_max,
            at_once=1,
            pods="killed",
            certain=False,
            nodes=pools[name].node_names,
        )
