"""The tenants of a Plan, with what they may use and spend.

Frozen values and no I/O, like the rest of the Plan (`gpupool.environment.plan`). What a share of a node is in
CPU and memory is here too, because a tenant's bounds are sums of such shares.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from gpupool.environment.spec.tenants import Budget, Project
from vapcheck import quantity


def cpu_quantity(millis: int) -> str:
    """Thousandths of a core as the API server writes them: 3600m, or 4 for 4000."""
    return f"{millis}m" if millis % 1000 else str(millis // 1000)


def memory_quantity(mib: int) -> str:
    """MiB as the API server writes them: 1536Mi, or 2Gi for 2048."""
    return str(quantity(f"{mib}Mi"))


@dataclass(frozen=True, slots=True)
class MachineShare:
    """A part of a machine."""

    cpu_millis: int
    """Thousandths of a core."""
    memory_mib: int

    def __add__(self, other: MachineShare) -> MachineShare:
        return MachineShare(self.cpu_millis + other.cpu_millis, self.memory_mib + other.memory_mib)

    def __sub__(self, other: MachineShare) -> MachineShare:
        return MachineShare(self.cpu_millis - other.cpu_millis, self.memory_mib - other.memory_mib)

    def __mul__(self, times: int) -> MachineShare:
        return MachineShare(self.cpu_millis * times, self.memory_mib * times)

    def part(self, fraction: Fraction) -> MachineShare:
        """So much of it, rounded down."""
        return MachineShare(int(self.cpu_millis * fraction), int(self.memory_mib * fraction))

    def as_dict(self) -> dict[str, str]:
        return {"cpu": cpu_quantity(self.cpu_millis), "memory": memory_quantity(self.memory_mib)}


NOTHING = MachineShare(0, 0)
DEFAULT_REQUESTS = MachineShare(100, 256)
"""Of a tenant's container that states none: its namespace's LimitRange."""


@dataclass(frozen=True, slots=True)
class Tenant:
    name: str
    id: str | None
    """UUID that older clients call it by."""
    namespace: str
    projects: tuple[Project, ...]
    weight: float
    max_priority: str | None
    grants: Mapping[str, Mapping[str, int]]
    """Pool -> extended resource -> count that the tenant may use of it."""
    up_to: Mapping[str, Mapping[str, int]]
    """Pool -> extended resource -> count that its jobs may use in all while others leave it idle; only of
    pools where that is more than it is granted."""
    running: int | None
    queued: int | None
    gpus_per_job: int | None
    budget: Budget | None
    ingress_from: tuple[str, ...]
    """Namespaces whose pods may reach the tenant's."""
    oidc_groups: tuple[str, ...]
    service_accounts: tuple[str, ...]
    """As namespace/name."""
    exposure: tuple[str, ...]
    """How its Services may be reached from outside: LoadBalancer, NodePort, ExternalIPs."""
    job_secrets: tuple[str, ...] | None
    """Secrets that its jobs in the queue may use; None: any of its namespace."""
    job_claims: tuple[str, ...] | None
    """PersistentVolumeClaims likewise."""
    checkpoints: str | None
    """`s3://bucket/folder/` that its jobs' checkpoints lie in; None: anywhere."""
    extra: MachineShare
    """CPU and memory beside what comes with the granted GPUs."""
    requests: MachineShare | None
    """CPU and memory that all its pods together may request, but for borrowed jobs; None where nothing bounds
    them: it has neither GPUs that they follow from nor extra, or the size of its machines is not known."""

    requests_up_to: MachineShare | None
    """The same with what is borrowed."""
    extended: Mapping[str, int]
    """Extended resource that is no GPU -> what comes with its grants, rounded down."""
    extended_up_to: Mapping[str, int]
    """The same with what is borrowed."""

    @property
    def quota(self) -> Mapping[str, int]:
        """Extended resource -> count over all pools: a namespace's quota can't distinguish pools."""
        return _summed(self.grants)

    @property
    def quota_up_to(self) -> Mapping[str, int]:
        """The same with what is borrowed."""
        return _summed({**self.grants, **self.up_to})


def _summed(pools: Mapping[str, Mapping[str, int]]) -> Mapping[str, int]:
    total = Counter[str]()
    for counts in pools.values():
        total.update(counts)
    return total
