"""The Plan: one environment with every default filled and every cross-check done.

Frozen values and the arithmetic that follows from them; no I/O, no YAML, no Kubernetes objects.
Generators, the Pulumi program, the queue and the simulator all read this and nothing above it, so a
number such as the slices of a node is worked out here once and typed nowhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from functools import cached_property
from typing import Any

from gpupool.environment.catalog.models import GpuModel
from gpupool.environment.plan.delivery import Delivery
from gpupool.environment.plan.platforms import PLATFORMS
from gpupool.environment.plan.policies import Policies
from gpupool.environment.plan.queue import QueueSettings
from gpupool.environment.plan.tenants import MachineShare, Tenant
from gpupool.environment.sharing import Isolation, Sharing
from gpupool.environment.spec.environment import Cluster, GpuOperator, Karpenter, MachineImage, Priority
from gpupool.environment.spec.machines import (
    Kubelet,
    PlacementGroup,
    RootVolume,
    SecurityGroupTerm,
    SubnetTerm,
)
from gpupool.environment.spec.services import Assertion, Monitoring

FOR_PODS = Fraction(9, 10)
"""Share of a machine that pods on slices divide among them. The rest is for the hypervisor (0.075 of the
memory, as Karpenter 1.14 assumes), kubelet, system and daemon sets."""

DISK_MIB = 20 * 1024
"""Disk that comes with each slice where the file does not say how much a node has: a model of some billion
parameters, or its data; one job that writes without end does not fill the node."""

POOL_LABEL = "gpupool.dev/pool"
ENVIRONMENT_LABEL = "gpupool.dev/environment"
MANAGED_BY = "app.kubernetes.io/managed-by"
"""With the value gpupool on every object that gpupool makes."""
TAINTS_ANNOTATION = "gpupool.dev/taints"
"""On a node that existed already: the taints that gpupool has put on it, as JSON."""
LEVEL_LABEL = "gpupool.dev/level"
"""On a PriorityClass: the queue's level of its priority."""
SYSTEM_NAMESPACE = "gpupool-system"


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str
    effect: str
    """NoSchedule, PreferNoSchedule or NoExecute."""

    def as_dict(self) -> dict[str, str]:
        """The taint as Kubernetes writes it: no value where it is empty."""
        value = {"value": self.value} if self.value else {}
        return {"key": self.key, **value, "effect": self.effect}

    def toleration(self) -> dict[str, str]:
        """The toleration that matches this taint and no other."""
        if self.value:
            return {"key": self.key, "operator": "Equal", "value": self.value, "effect": self.effect}
        return {"key": self.key, "operator": "Exists", "effect": self.effect}

    def tolerated_by(self, tolerations: Iterable[Mapping[str, Any]]) -> bool:
        """Whether one of `tolerations` matches: Exists without a key matches every key, and a toleration
        without an effect every effect (Kubernetes 1.36, taints and tolerations)."""
        return any(
            row.get("effect") in (None, "", self.effect)
            and (
                row.get("key") in (None, "", self.key)
                if row.get("operator") == "Exists"
                else (row.get("key"), row.get("value") or "") == (self.key, self.value)
            )
            for row in tolerations
        )


@dataclass(frozen=True, slots=True)
class Machine:
    """One kind of node that a pool may have."""

    instance_type: str | None
    """None for nodes that exist already."""
    gpus: int
    slices: Mapping[str, int]
    """Extended resource -> count on one such node."""
    usd_per_hour: float | None
    """On-demand price of the node; 0 where the nodes are the user's own, None where no price is known."""
    spot_usd_per_hour: float | None
    reserved_usd_per_hour: float | None
    """What the node costs where it is reserved, used or not."""
    size: MachineShare | None
    """CPU and memory of one such node; None where the file says nothing of an existing node."""
    extended: Mapping[str, int] = field(default_factory=dict)
    """Extended resource -> count on one such node, of those that are no GPUs."""


RESERVED = "reserved"
"""Capacity type of nodes that are paid for whether they run or not."""
SPOT_FIRST = "spot-first"
"""Capacity type of a NodePool whose nodes are spot nodes while there are any, and else on-demand ones."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """Nodes of a pool that Karpenter takes in one way: one NodePool."""

    name: str
    """Name of the NodePool."""
    type: str
    """reserved, spot, on-demand or spot-first."""
    max_gpus: int
    """Most physical GPUs of its nodes."""
    max_nodes: int
    """Most nodes: all of them the smallest machine."""
    weight: int
    """Karpenter tries the higher weight first: reserved, then spot, then on-demand."""

    @property
    def types(self) -> tuple[str, ...]:
        """Karpenter's capacity types, in the order in which it takes them, which is that of their prices."""
        return ("spot", "on-demand") if self.type == SPOT_FIRST else (self.type,)


@dataclass(frozen=True, slots=True)
class Reserved:
    """Nodes that are reserved for the pool."""

    id: str | None
    """The reservation's id; None where it is found by `tags`."""
    tags: Mapping[str, str]
    count: int
    """Nodes."""
    until: datetime | None
    """When the reservation ends, in UTC; None: not by itself."""

    def selector(self) -> dict[str, Any]:
        """How Karpenter finds it (EC2NodeClass capacityReservationSelectorTerms, 1.14)."""
        return {"id": self.id} if self.id else {"tags": dict(self.tags)}

    def as_dict(self) -> dict[str, Any]:
        """As `show --format json` prints it: `until` as RFC 3339."""
        until = self.until.isoformat().replace("+00:00", "Z") if self.until else None
        return {**self.selector(), "count": self.count, "until": until}


@dataclass(frozen=True, slots=True)
class Window:
    """A weekly or daily maintenance window in UTC."""

    weekdays: tuple[int, ...]
    """Cron weekdays, 0 = Sunday; all seven for a daily window."""
    start_minute: int
    """Minute of the day at which it opens."""
    minutes: int
    """How long it is open."""


@dataclass(frozen=True, slots=True)
class MachineDetails:
    """What machines are made of, beside their image; nothing of it says anything of existing nodes."""

    root_volume: RootVolume
    subnets: tuple[SubnetTerm, ...]
    """Empty: those of the environment."""
    security_groups: tuple[SecurityGroupTerm, ...]
    """Empty: those of the environment."""
    kubelet: Kubelet | None
    placement_group: PlacementGroup | None
    tags: Mapping[str, str]
    efa: int
    """Network cards with EFA of each machine that a job over several nodes asks for; 0: none."""


@dataclass(frozen=True, slots=True)
class Pool:
    name: str
    description: str
    gpu: GpuModel
    sharing: Sharing
    machines: tuple[Machine, ...]
    """At least one; exactly one for nodes that exist already."""
    capacities: tuple[Capacity, ...]
    """What Karpenter may start; empty for nodes that exist already."""
    gpus_max: int
    """Most physical GPUs, all nodes together."""
    nodes_max: int
    """Most nodes: all of them the smallest machine."""
    warm: int
    """Nodes kept ready whatever the demand."""
    spot_share: float
    """Of the nodes that are not reserved."""
    spot_first: bool
    """Whether these are spot nodes while there are any, and on-demand ones when there are none."""
    reserved: tuple[Reserved, ...]
    image: MachineImage | None
    """Of its machines, where it is not the environment's own."""
    machine: MachineDetails
    """What its machines are made of."""
    startup_taints: tuple[Taint, ...]
    zones: tuple[str, ...]
    consolidate_after: str
    """How long an empty node stays that is not reserved."""
    reserved_consolidate_after: str
    expire_after: str
    termination_grace_period: str | None
    """How long a node that is to go waits for its pods; None: for as long as they run."""
    node_names: tuple[str, ...]
    node_selector: Mapping[str, str]
    labels: Mapping[str, str]
    """All labels of the pool's nodes: the user's and those that steer device plugin and MIG manager."""
    taints: tuple[Taint, ...]
    cloud_taints: tuple[Taint, ...]
    """Taints that the cloud puts on the nodes by itself; pods of the pool tolerate them too."""
    fallback_to: tuple[str, ...]
    overcommit: bool
    """Whether grants may add up to more than `slices_max`."""
    jobs_only: bool
    max_unavailable: int
    window: Window | None
    disk_mib: int | None
    """Disk of one node that jobs share; None where the file does not say it."""
    mig_config: str | None
    """Name of the mig-parted config, value of nvidia.com/mig.config; derived from the layout."""

    def stopped_after(self, capacity_type: str) -> str:
        """After how long Karpenter stops an empty node of that capacity type, as NodePools have it; Never:
        not at all. What is reserved is paid for while it is off, too."""
        return self.reserved_consolidate_after if capacity_type == RESERVED else self.consolidate_after

    @property
    def tolerated(self) -> tuple[Taint, ...]:
        """What pods of the pool tolerate."""
        return (*self.taints, *self.cloud_taints)

    @property
    def spot_share_max(self) -> float:
        """The share of its nodes, but for reserved ones, that may be spot nodes."""
        return 1.0 if self.spot_first else self.spot_share

    @property
    def gpus_per_node(self) -> int:
        """GPUs of the largest machine."""
        return max(machine.gpus for machine in self.machines)

    @property
    def slices_per_node(self) -> Mapping[str, int]:
        """Extended resource -> count on the largest machine."""
        return max(self.machines, key=lambda machine: machine.gpus).slices

    @property
    def one_size(self) -> bool:
        """Whether all machines have the same number of GPUs."""
        return len({machine.gpus for machine in self.machines}) == 1

    @property
    def limit_field(self) -> str:
        """The field of the file to change where the pool is too small."""
        return "nodes.max" if self.one_size else "nodes.maxGpus"

    def largest_machines(self) -> Iterator[tuple[str, Machine]]:
        """The machines of the pool at its maximum, each with its capacity type: as many of the largest as
        there are GPUs for, and smaller ones for the rest."""
        by_size = sorted(self.machines, key=lambda machine: -machine.gpus)
        for capacity in self.capacities:
            left = capacity.max_gpus
            for machine in by_size:
                count, left = divmod(left, machine.gpus)
                yield from ((capacity.type, machine) for _ in range(count))
        if not self.capacities:
            (machine,) = self.machines
            yield from (("on-demand", machine) for _ in range(self.nodes_max))

    def slices_of(self, gpus: int) -> Mapping[str, int]:
        """Extended resource -> count on so many physical GPUs."""
        return {name: count * gpus for name, count in self.sharing.slices_per_gpu(self.gpu).items()}

    @property
    def slices_max(self) -> Mapping[str, int]:
        """Extended resource -> count on all nodes that the pool may have."""
        return self.slices_of(self.gpus_max)

    def limits(self, capacity: Capacity) -> Mapping[str, int]:
        """What bounds a NodePool. Karpenter counts what nodes advertise, which is slices (1.14.1,
        pkg/controllers/state). It counts nodes only between two batches of pods
        (kubernetes-sigs/karpenter#2915), so a number of nodes says something only where the slices say the
        same."""
        nodes = {"nodes": capacity.max_nodes} if self.one_size else {}
        return {**nodes, **self.slices_of(capacity.max_gpus)}

    @property
    def lends_whole_gpus(self) -> bool:
        """Whether a job can have a shared GPU to itself: only where GPUs are time-sliced and each node has
        one, since else the device plugin picks the card; an MPS daemon serves all clients of its node."""
        return self.sharing.may_fall_back and all(machine.gpus == 1 for machine in self.machines)

    @property
    def equivalents(self) -> Mapping[str, Fraction]:
        """Extended resource -> the share of a physical GPU that one of it is."""
        return self.sharing.equivalents(self.gpu)

    def share(self, resource: str) -> MachineShare | None:
        """What a pod may request of a node with each unit of `resource`: of the machine that gives most.
        None where a machine's size is unknown."""
        part = self.equivalents[resource] * FOR_PODS
        shares = [machine.size.part(part / machine.gpus) for machine in self.machines if machine.size]
        if len(shares) < len(self.machines):
            return None
        return MachineShare(
            max(share.cpu_millis for share in shares), max(share.memory_mib for share in shares)
        )

    def extended_share(self, resource: str) -> Mapping[str, Fraction]:
        """Extended resource that is no GPU -> what comes with each unit of `resource`, on the machine that
        has most of it for each GPU. Not rounded: half a card with each of eight GPUs is four for all."""
        part = self.equivalents[resource]
        names = sorted({name for machine in self.machines for name in machine.extended})
        return {
            name: max(part * machine.extended.get(name, 0) / machine.gpus for machine in self.machines)
            for name in names
        }

    def disk_share_mib(self, resource: str) -> int:
        """What a job may write to its node's disk with each unit of `resource`: the least that every node
        has for it."""
        if self.disk_mib is None:
            return DISK_MIB
        return int(self.disk_mib * FOR_PODS * self.equivalents[resource] / self.gpus_per_node)

    @property
    def gpu_memory_mib(self) -> int | None:
        """An equal part of a GPU's memory for each pod on it; None where the hardware or MPS divides it."""
        if self.sharing.isolation >= Isolation.memory:
            return None
        return self.gpu.memory_mib // sum(self.sharing.slices_per_gpu(self.gpu).values())


@dataclass(frozen=True)  # without slots: what is asked for each tenant is worked out once
class Plan:
    environment: str
    cluster: Cluster
    gpu_operator: GpuOperator
    karpenter: Karpenter | None
    """None where nodes exist already (static)."""
    pools: tuple[Pool, ...]
    priorities: tuple[Priority, ...]
    """Highest first."""
    tenants: tuple[Tenant, ...]
    monthly_usd_max: float | None
    """Ceiling for all pools at their maximum, USD a month; None where the file sets none."""
    monitoring: Monitoring
    queue: QueueSettings
    policies: Policies
    delivery: Delivery
    assertion: Assertion | None = None
    """None where the cluster does not run `gpupool assert` itself."""
    text: str = field(default="", repr=False, compare=False)
    """The environment file as it was read. For code that keeps the file itself; nothing may be derived from
    it."""

    def pool(self, name: str) -> Pool:
        """The pool of that name. Raises KeyError."""
        for pool in self.pools:
            if pool.name == name:
                return pool
        raise KeyError(name)

    @property
    def has_existing_nodes(self) -> bool:
        """Whether a pool is of nodes that exist already."""
        return any(not pool.capacities for pool in self.pools)

    def labelled_by_group(self, pool: Pool) -> bool:
        """Whether the pool's nodes have its labels and taints from their node group alone: files that Argo CD
        and Flux deliver are rendered without the cluster, which alone knows what a selector chooses."""
        return bool(pool.node_selector) and self.delivery.gitops

    @property
    def uses_gpu_operator(self) -> bool:
        """Whether the GPU Operator shares the GPUs; else the cloud does."""
        return PLATFORMS[self.cluster.platform].operator

    @cached_property
    def allows_borrowing(self) -> bool:
        """Whether a tenant may use more than it is granted."""
        return any(tenant.up_to for tenant in self.tenants)

    @cached_property
    def resources(self) -> tuple[str, ...]:
        """Every extended resource that some pool hands out, sorted."""
        return tuple(sorted({name for pool in self.pools for name in pool.slices_per_node}))

    @cached_property
    def extended_resources(self) -> tuple[str, ...]:
        """Every extended resource of some pool's machines that is no GPU, sorted."""
        return tuple(
            sorted({name for pool in self.pools for machine in pool.machines for name in machine.extended})
        )

    @property
    def slices_max(self) -> Mapping[str, int]:
        """Extended resource -> count with every pool at its maximum."""
        total = Counter[str]()
        for pool in self.pools:
            total.update(pool.slices_max)
        return total
