"""Arithmetic between the environment's words and the Plan's numbers: machines, grants, windows.

The one place where GPUs become slices. Pure; what a combination may not be is judged in
`gpupool.environment.plan.checks`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from gpupool.environment.catalog.models import GpuModel, mig_resource
from gpupool.environment.plan.model import RESERVED, SPOT_FIRST, Capacity, Machine, Pool, Reserved, Window
from gpupool.environment.plan.tenants import MachineShare
from gpupool.environment.sharing import GPU_RESOURCE, Sharing, sharing_modes
from gpupool.environment.spec import environment as spec
from gpupool.environment.spec import tenants as spec_tenants
from gpupool.environment.spec.field_types import Compute, memory_mib

_WINDOW = re.compile(
    r"(?P<days>daily|[A-Z][a-z]{2}(,[A-Z][a-z]{2})*) (?P<from>\d\d:\d\d)-(?P<to>\d\d:\d\d) UTC",
    re.ASCII,
)
EFA = "vpc.amazonaws.com/efa"
"""Resource of AWS' device plugin (aws-efa-k8s-device-plugin): a network card."""
_MODES = {mode.mode: mode for mode in sharing_modes}
WEEKDAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")


def sharing_of(sharing: spec.Sharing, operator: bool = True) -> Sharing:
    """The sharing mode that the file describes, as the value that does the arithmetic. `operator`: whether
    the GPU Operator shares GPUs, or the cloud, whose instances have one name."""
    mode = _MODES[sharing.mode](**sharing.model_dump(exclude={"mode"}))
    return mode if operator else mode.in_node_pool


def machines(gpu: GpuModel, sharing: Sharing, nodes: spec.Nodes, static: bool) -> tuple[Machine, ...]:
    """The kinds of node that the pool may have, in the order of the file. Raises CatalogError for an
    instance type that does not carry `gpu`."""
    per_gpu = sharing.slices_per_gpu(gpu)
    if static:
        gpus = nodes.gpus or 1
        size = share_of(nodes.size) if nodes.size else None
        slices = _times(per_gpu, gpus)
        return (Machine(None, gpus, slices, 0.0, 0.0, 0.0, size, nodes.extended_resources),)
    result = []
    for name in nodes.instance_types:
        instance_type = gpu.instance_type(name)
        usd_per_hour = nodes.usd_per_hour
        usd = instance_type.usd_per_hour if usd_per_hour.on_demand is None else usd_per_hour.on_demand
        spot = instance_type.spot_usd_per_hour
        if usd_per_hour.on_demand is not None and instance_type.spot_ratio is not None:
            spot = round(usd_per_hour.on_demand * instance_type.spot_ratio, 4)
        spot = spot if usd_per_hour.spot is None else usd_per_hour.spot
        reserved = usd if usd_per_hour.reserved is None else usd_per_hour.reserved
        size = MachineShare(instance_type.vcpus * 1000, int(instance_type.memory_gib * 1024))
        slices = _times(per_gpu, instance_type.gpus)
        # Karpenter starts a machine with EFA for any pod that asks for it (aws provider 1.14, instancetype).
        extended = ({EFA: instance_type.efa} if instance_type.efa else {}) | nodes.extended_resources
        result.append(Machine(name, instance_type.gpus, slices, usd, spot, reserved, size, extended))
    return tuple(result)


def efa_cards(gpu: GpuModel, nodes: spec.Nodes) -> int:
    """Network cards with EFA that each machine of the pool has, where jobs are to have them; 0: none."""
    if not nodes.efa:
        return 0
    return min((gpu.instance_type(name).efa or 0 for name in nodes.instance_types), default=0)


def share_of(given: Compute) -> MachineShare:
    """CPU and memory that the file writes down."""
    return MachineShare(given.cpus * 1000, memory_mib(given.memory))


def _times(slices: Mapping[str, int], gpus: int) -> dict[str, int]:
    return {name: count * gpus for name, count in slices.items()}


def gpus_max(nodes: spec.Nodes, machines: Collection[Machine]) -> int:
    """Most physical GPUs that `machines` of the pool may have together; 0 where the file does not say it."""
    if nodes.max_gpus is not None:
        return nodes.max_gpus
    return (nodes.max or len(nodes.names)) * max(machine.gpus for machine in machines)


def reservations(reserved: Collection[spec.Reservation]) -> tuple[Reserved, ...]:
    """What the file reserves, that which ends last first."""
    rows = [Reserved(row.id, row.tags or {}, row.count, row.until) for row in reserved]
    return tuple(sorted(rows, key=lambda row: -row.until.timestamp() if row.until else float("-inf")))


def capacities(
    pool: str,
    gpus: int,
    sizes: Collection[int],
    spot_share: float,
    reserved: int = 0,
    spot_first: bool = False,
) -> tuple[Capacity, ...]:
    """The NodePools of a pool of so many physical GPUs, whose machines have `sizes` of them. `reserved` nodes
    have a NodePool of their own, and the others the rest. Limits are what makes a spot share hold, since
    Karpenter itself has no ratio (facts of Karpenter 1.14: weights order, they do not divide). Rounded to the
    nearest of the smallest machines, and a share strictly between 0 and 1 leaves each side at least the
    largest machine, where there are GPUs for both."""
    smallest = min(sizes)
    gpus -= reserved * smallest
    nodes, least = gpus // smallest, -(-max(sizes) // smallest)
    spot = round(nodes * spot_share)
    if 0 < spot_share < 1 and nodes >= 2 * least:
        spot = min(max(spot, least), nodes - least)
    result = []
    if reserved:
        result.append(Capacity(f"{pool}-reserved", RESERVED, reserved * smallest, reserved, 30))
    if spot_first and nodes:
        # One NodePool of both: two of them would each need the whole limit.
        result.append(Capacity(pool, SPOT_FIRST, nodes * smallest, nodes, 10))
    elif nodes - spot:
        result.append(Capacity(pool, "on-demand", (nodes - spot) * smallest, nodes - spot, 10))
    if spot:
        name = f"{pool}-spot" if nodes - spot else pool
        result.append(Capacity(name, "spot", spot * smallest, spot, 20))
    return tuple(result)


def grant_slices(pool: Pool, grant: spec_tenants.Grant) -> dict[str, int]:
    """Extended resource -> count that `grant` amounts to on `pool`. Raises CatalogError for a MIG
    profile that the GPU does not have."""
    if grant.profiles and pool.gpu.mig is not None and pool.sharing.layout:
        mig = pool.gpu.mig
        spelled = {mig.profile(name): name for name in pool.sharing.layout}
        wanted = {mig.profile(name): count for name, count in grant.profiles.items()}
        if pool.sharing.one_name:
            return {
                GPU_RESOURCE if profile in spelled else mig_resource(profile.name): count
                for profile, count in wanted.items()
            }
        return {mig_resource(spelled.get(profile, profile.name)): count for profile, count in wanted.items()}
    if grant.slices is not None:
        return dict.fromkeys(pool.slices_per_node, grant.slices)
    return _times(pool.sharing.slices_per_gpu(pool.gpu), grant.gpus or 0)


def up_to_slices(pool: Pool, grant: spec_tenants.Grant) -> dict[str, int]:
    """Extended resource -> count that the tenant may use in all, borrowed slices among them; empty where the
    grant says nothing of it. Raises CatalogError like `grant_slices`."""
    if grant.up_to is None:
        return {}
    field = grant.counted_in[-1] if grant.counted_in else "gpus"
    most = grant_slices(pool, grant.model_copy(update={field: grant.up_to}))
    return {**grant_slices(pool, grant), **most}


def overgranted(
    capacity: Mapping[str, int], grants: Iterable[Mapping[str, int]]
) -> dict[str, tuple[int, int]]:
    """Extended resource -> (what `grants` add up to, what of it there is), where that is more than there is.
    `capacity` is what the pool has at its maximum."""
    total = Counter[str]()
    for grant in grants:
        total.update(grant)
    return {
        resource: (count, capacity.get(resource, 0))
        for resource, count in total.items()
        if count > capacity.get(resource, 0)
    }


def parse_window(text: str) -> Window:
    """A maintenance window such as "Sat 02:00-06:00 UTC", "Mon,Thu 22:00-02:00 UTC" or
    "daily 01:00-03:00 UTC". Raises ValueError that says what is wrong."""
    match = _WINDOW.fullmatch(text)
    if match is None:
        raise ValueError("it is not of the form day hh:mm-hh:mm UTC")
    days = match["days"]
    unknown = [day for day in days.split(",") if day not in WEEKDAYS] if days != "daily" else []
    if unknown:
        raise ValueError(f"{unknown[0]} is not a weekday")
    start, end = _minutes(match["from"]), _minutes(match["to"])
    if start == end:
        raise ValueError("it opens and closes at the same time")
    weekdays = range(7) if days == "daily" else sorted({WEEKDAYS.index(day) for day in days.split(",")})
    return Window(tuple(weekdays), start, (end - start) % 1440)


def _minutes(clock: str) -> int:
    hours, minutes = int(clock[:2]), int(clock[3:])
    if hours > 23 or minutes > 59:
        raise ValueError(f"{clock} is not a time")
    return hours * 60 + minutes
