"""Who shares the pools, as sections of the environment file: tenants, what they are granted and may do.

As strict as the rest (`gpupool.spec`, which puts the sections together), and as free of cross-checks.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from gpupool.spec.field_types import (
    AccountName,
    CheckpointPrefix,
    Compute,
    Count,
    Model,
    Name,
    NodeName,
    Positive,
    Text,
    Usd,
    Uuid,
)

UP_TO_FORMS = ("a number", "a mapping")
"""The two ways to write `upTo`, as pydantic's errors have them behind it."""


def _up_to_form(value: Any) -> str:
    return UP_TO_FORMS[isinstance(value, dict)]


UpTo = Annotated[
    Annotated[Positive, Tag(UP_TO_FORMS[0])] | Annotated[dict[str, Positive], Tag(UP_TO_FORMS[1])],
    Discriminator(_up_to_form),
]


class Grant(Model):
    gpus: Count | None = None
    """Physical GPUs; becomes gpus x slices per GPU. 0 beside `upTo`: all that the tenant uses is borrowed."""
    slices: Count | None = None
    """Slices, where the pool is not MIG."""
    profiles: dict[str, Count] = {}
    """MIG instances by profile, where the pool is MIG."""
    up_to: UpTo | None = None
    """How much the tenant's jobs may use in all while others leave it idle, in the words of the grant: a
    number of GPUs or slices, or profiles; default: the grant. What is beyond the grant is borrowed."""

    @property
    def counted_in(self) -> list[str]:
        """Which of `gpus`, `slices` and `profiles` the grant says; one, unless it is wrong."""
        rows = (("gpus", self.gpus), ("slices", self.slices), ("profiles", self.profiles))
        return [field for field, amount in rows if amount is not None and amount != {}]


class Limits(Model):
    running: Positive | None = None
    """Jobs that may run at once."""
    queued: Positive | None = None
    """Jobs that may wait at once."""
    gpus_per_job: Positive | None = None
    """GPUs that one job may ask for."""


class Budget(Model):
    usd: Usd
    """USD per period."""
    period: Literal["day", "week", "month"] = "month"
    """What the sum is for."""
    alert_at: list[Annotated[float, Field(ge=0.01, le=10)]] = [0.8, 1.0]
    """Shares of the budget at which an alert goes out."""
    on_exhausted: Literal["wait", "reject", "preempt"] = "wait"
    """What happens to jobs when it is spent."""
    overrun_by: Annotated[float, Field(ge=0, le=10)] = 0
    """Share of the budget by which critical jobs may exceed it; default: not at all."""


class Project(Model):
    name: Name
    """Name of the project."""
    id: Uuid | None = None
    """UUID that older clients call the project by."""
    budget: Budget | None = None
    """Money of the project, within the tenant's; absent: the tenant's alone."""


PROJECT_FORMS = ("a name", "a mapping")
"""The two ways to write a project, as pydantic's errors have them between the index and what is in it."""


def _form(project: Any) -> str:
    return PROJECT_FORMS[isinstance(project, dict | Project)]


ProjectOrName = Annotated[
    Annotated[Name, Tag(PROJECT_FORMS[0])] | Annotated[Project, Tag(PROJECT_FORMS[1])], Discriminator(_form)
]


class Access(Model):
    ingress_from: list[Name] = []
    """Namespaces whose pods may reach the tenant's, such as an ingress controller's or Prometheus'."""
    oidc_groups: list[Text] = []
    """Groups of the identity provider whose members act for the tenant."""
    service_accounts: list[AccountName] = []
    """Service accounts, as namespace/name, that act for the tenant."""
    exposure: list[Literal["LoadBalancer", "NodePort", "ExternalIPs"]] = []
    """How the tenant's Services may be reached from outside the cluster; default: not at all."""


class TenantJobs(Model):
    secrets: list[NodeName] | None = None
    """Secrets of its namespace that its jobs may use, for variables and to pull images; default: any."""
    claims: list[NodeName] | None = None
    """PersistentVolumeClaims of its namespace that its jobs may mount; default: any."""
    checkpoints: CheckpointPrefix | None = None
    """Folder that its jobs' checkpoints lie in, as s3://bucket/folder/; default: anywhere."""


class Tenant(Model):
    name: Name
    """Name of the tenant."""
    id: Uuid | None = None
    """UUID that older clients call the tenant by, in the queue's X-Tenant-Id."""
    namespace: Name
    """The tenant's namespace; one per tenant."""
    projects: list[ProjectOrName] = []
    """Projects, for budgets and reports: each a name, or a mapping with name, id and budget."""
    weight: Annotated[float, Field(gt=0, le=1000)] = 1
    """Fair share relative to other tenants."""
    max_priority: str | None = None
    """Highest priority that the tenant may use; default: the lowest defined."""
    pools: dict[str, Grant] = {}
    """Pools that the tenant may use, and how much of each."""
    extra: Compute | None = None
    """What the tenant's pods may request beside what comes with the granted GPUs; default: nothing."""
    limits: Limits = Limits()
    """Limits in the queue."""
    budget: Budget | None = None
    """Money; absent: unlimited."""
    access: Access = Access()
    """Who acts for the tenant."""
    jobs: TenantJobs = TenantJobs()
    """What its jobs in the queue may use."""
