"""Who shares the pools, as sections of the environment file: tenants, what they are granted and may do.

As strict as the rest (`gpupool.environment.spec`, which puts the sections together), and as free of
cross-checks.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from gpupool.environment.spec.field_types import (
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
    """Physical GPUs; becomes gpus x slices per GPU. 0 with `upTo`: everything that the tenant uses is
    borrowed."""
    slices: Count | None = None
    """Slices of a pool that is not partitioned by MIG."""
    profiles: dict[str, Count] = {}
    """MIG instances by profile."""
    up_to: UpTo | None = None
    """Maximum that the tenant's jobs may use in total, in the unit of the grant, while other tenants leave
    capacity idle; default: the grant. Use above the grant is borrowed."""

    @property
    def counted_in(self) -> list[str]:
        """Which of `gpus`, `slices` and `profiles` the grant says; one, unless it is wrong."""
        rows = (("gpus", self.gpus), ("slices", self.slices), ("profiles", self.profiles))
        return [field for field, amount in rows if amount is not None and amount != {}]


class Limits(Model):
    running: Positive | None = None
    """Maximum number of running jobs."""
    queued: Positive | None = None
    """Maximum number of waiting jobs."""
    gpus_per_job: Positive | None = None
    """Maximum number of GPUs of one job."""


class Budget(Model):
    usd: Usd
    """USD per period."""
    period: Literal["day", "week", "month"] = "month"
    """Period of the budget."""
    alert_at: list[Annotated[float, Field(ge=0.01, le=10)]] = [0.8, 1.0]
    """Shares of the budget at which an alert is sent."""
    on_exhausted: Literal["wait", "reject", "preempt"] = "wait"
    """What happens to jobs when the budget is exhausted."""
    overrun_by: Annotated[float, Field(ge=0, le=10)] = 0
    """Share by which critical jobs may exceed the budget; default: 0."""


class Project(Model):
    name: Name
    """Name of the project."""
    id: Uuid | None = None
    """UUID that older clients use for the project."""
    budget: Budget | None = None
    """Budget of the project, within the tenant's; default: only the tenant's."""


PROJECT_FORMS = ("a name", "a mapping")
"""The two ways to write a project, as pydantic's errors have them between the index and what is in it."""


def _form(project: Any) -> str:
    return PROJECT_FORMS[isinstance(project, dict | Project)]


ProjectOrName = Annotated[
    Annotated[Name, Tag(PROJECT_FORMS[0])] | Annotated[Project, Tag(PROJECT_FORMS[1])], Discriminator(_form)
]


class Access(Model):
    ingress_from: list[Name] = []
    """Namespaces whose pods may connect to the tenant's pods, such as those of an ingress controller or
    Prometheus."""
    oidc_groups: list[Text] = []
    """Groups of the identity provider whose members act for the tenant."""
    service_accounts: list[AccountName] = []
    """Service accounts, as namespace/name, that act for the tenant."""
    exposure: list[Literal["LoadBalancer", "NodePort", "ExternalIPs"]] = []
    """How the tenant's Services may be reached from outside the cluster; default: not at all."""


class TenantJobs(Model):
    secrets: list[NodeName] | None = None
    """Secrets of the namespace that jobs may use, for variables and to pull images; default: any."""
    claims: list[NodeName] | None = None
    """PersistentVolumeClaims of the namespace that jobs may mount; default: any."""
    checkpoints: CheckpointPrefix | None = None
    """Folder for checkpoints of jobs, such as s3://bucket/folder/; default: anywhere."""


class Tenant(Model):
    name: Name
    """Name of the tenant."""
    id: Uuid | None = None
    """UUID that older clients use for the tenant, in the queue's X-Tenant-Id."""
    namespace: Name
    """The tenant's namespace; one per tenant."""
    projects: list[ProjectOrName] = []
    """Projects, for budgets and reports: each a name, or a mapping with name, id and budget."""
    weight: Annotated[float, Field(gt=0, le=1000)] = 1
    """Fair share relative to other tenants."""
    max_priority: str | None = None
    """Highest priority that the tenant may use; default: the lowest defined."""
    pools: dict[str, Grant] = {}
    """Pools that the tenant may use, with a grant for each."""
    extra: Compute | None = None
    """CPU and memory that the tenant's pods may request in addition to what comes with the granted GPUs;
    default: none."""
    limits: Limits = Limits()
    """Limits in the queue."""
    budget: Budget | None = None
    """Budget; default: unlimited."""
    access: Access = Access()
    """Groups and accounts that act for the tenant."""
    jobs: TenantJobs = TenantJobs()
    """Restrictions on what jobs in the queue may use."""
