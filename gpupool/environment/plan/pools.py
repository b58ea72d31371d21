"""A pool of the environment file -> a pool of the Plan, with every default filled.

Part of `gpupool.environment.plan.resolve`. Refuses nothing: what can't be a pool is reported by
`gpupool.environment.plan.checks`.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from gpupool.environment.catalog.load import Catalog
from gpupool.environment.catalog.models import CatalogError
from gpupool.environment.plan import model as plan
from gpupool.environment.plan.capacity import (
    capacities,
    efa_cards,
    gpus_max,
    machines,
    parse_window,
    reservations,
    sharing_of,
)
from gpupool.environment.plan.platforms import PLATFORMS
from gpupool.environment.sharing import Sharing
from gpupool.environment.spec import environment as spec
from gpupool.environment.spec.field_types import memory_mib


def resolve_pool(pool: spec.Pool, catalog: Catalog, static: bool, platform: str) -> plan.Pool | None:
    """The resolved pool; None where a check will say why it can't be. `static`: its nodes exist already."""
    nodes = pool.nodes
    try:
        gpu = catalog[pool.gpu]
        sharing = sharing_of(pool.sharing, PLATFORMS[platform].operator)
        if sharing.problems(gpu):
            return None
        kinds = machines(gpu, sharing, nodes, static)
    except CatalogError:
        return None
    gpus = gpus_max(nodes, kinds) if kinds else 0
    sizes = {machine.gpus for machine in kinds}
    if not kinds or gpus < max(sizes):
        return None
    mig = mig_config_name(sharing) if PLATFORMS[platform].operator else None
    reserved = () if static else reservations(nodes.reserved)
    held = sum(row.count for row in reserved)
    if held * min(sizes) > gpus:
        return None
    return plan.Pool(
        name=pool.name,
        description=pool.description,
        gpu=gpu,
        sharing=sharing,
        machines=kinds,
        capacities=()
        if static
        else capacities(pool.name, gpus, sizes, nodes.spot_share, held, bool(nodes.capacity)),
        gpus_max=gpus,
        nodes_max=gpus // min(sizes),
        warm=nodes.warm,
        spot_share=nodes.spot_share,
        spot_first=bool(nodes.capacity),
        reserved=reserved,
        image=nodes.image,
        machine=plan.MachineDetails(
            nodes.root_volume,
            tuple(nodes.subnets),
            tuple(nodes.security_groups),
            nodes.kubelet,
            nodes.placement_group,
            nodes.tags,
            efa_cards(gpu, nodes),
        ),
        startup_taints=_as_taints(nodes.startup_taints),
        zones=tuple(nodes.zones),
        consolidate_after=nodes.consolidate_after,
        reserved_consolidate_after=nodes.reserved_consolidate_after,
        expire_after=nodes.expire_after,
        termination_grace_period=nodes.termination_grace_period,
        node_names=tuple(nodes.names),
        node_selector=nodes.selector,
        labels=_node_labels(pool, mig, PLATFORMS[platform].operator),
        taints=_taints(pool),
        cloud_taints=(plan.Taint(*taint),) if (taint := PLATFORMS[platform].taint) else (),
        fallback_to=tuple(pool.fallback_to),
        overcommit=pool.overcommit,
        jobs_only=pool.jobs_only,
        max_unavailable=pool.maintenance.max_unavailable,
        window=_window(pool.maintenance),
        disk_mib=memory_mib(nodes.disk) if nodes.disk else None,
        mig_config=mig,
    )


def _window(maintenance: spec.Maintenance) -> plan.Window | None:
    """None if there is no window, or if it is invalid, which a check reports."""
    try:
        return parse_window(maintenance.window) if maintenance.window else None
    except ValueError:
        return None


def _node_labels(pool: spec.Pool, mig: str | None, operator: bool) -> dict[str, str]:
    """The user's labels, and those that steer device plugin and MIG manager."""
    own = {**pool.labels, plan.POOL_LABEL: pool.name}
    if not operator:
        return own
    return {
        **own,
        # The pool's name and not the settings: when replicas change the label stays, the plugin is restarted
        # by the new ConfigMap's name, and no node is replaced.
        "nvidia.com/device-plugin.config": pool.name,
        **({"nvidia.com/mig.config": mig} if mig else {}),
    }


def _taints(pool: spec.Pool) -> tuple[plan.Taint, ...]:
    if pool.taints is None:
        return (plan.Taint(plan.POOL_LABEL, pool.name, "NoSchedule"),)
    return _as_taints(pool.taints)


def _as_taints(taints: Iterable[spec.Taint]) -> tuple[plan.Taint, ...]:
    return tuple(plan.Taint(taint.key, taint.value, taint.effect) for taint in taints)


def mig_config_name(sharing: Sharing) -> str | None:
    """Name of the mig-parted config of a layout, e.g. `1x3g.40gb_2x2g.20gb`: made of the layout alone, so
    that another layout is another label value and Karpenter replaces the node. None without MIG.
    A label value has no `+`, which becomes `.` as in NVIDIA's own names (mig-parted v0.15.0)."""
    if not sharing.layout:
        return None
    parts = [f"{count}x{profile}" for profile, count in sorted(sharing.layout.items(), reverse=True)]
    name = "_".join(parts).replace("+", ".")
    if len(name) <= 63:
        return name
    return f"{parts[0]}_{sha256(name.encode()).hexdigest()[:12]}".replace("+", ".")
