"""The values of charts/gpu-scheduler: their types and defaults, of which its values.schema.json is made.

`gpupool.generators.queue_release` fills them in from a Plan. This module must not know the Plan, and
everything here is read by the chart's templates.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints

from gpupool.environment.spec.field_types import Duration, LabelKey, LabelValue, Model, Name, NodeName

Quantity = Annotated[str, StringConstraints(pattern=r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$")]
Port = Annotated[int, Field(ge=1, le=65535)]
PinnedImage = Annotated[
    str,
    StringConstraints(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]*(:[A-Za-z0-9_][A-Za-z0-9_.-]*|@sha256:[0-9a-f]{64})$"
    ),
]
FilePath = Annotated[
    str, StringConstraints(pattern=r"^(environments|catalog|policies)/[A-Za-z0-9._-]+\.ya?ml$")
]
DATABASE_PORT = 5432
API_SERVER_PORTS = (443, 6443)
"""Of its Service, and behind it: some network plugins judge the one, some the other."""


class Part(Model):
    """Written here by its Python names."""

    model_config = ConfigDict(populate_by_name=True)


class SecretKey(Part):
    name: NodeName
    """Name of a Secret in the release's namespace."""
    key: Annotated[str, StringConstraints(pattern=r"^[-._a-zA-Z0-9]+$", max_length=253)]
    """Key in it."""


class Resources(Part):
    requests: dict[str, Quantity] = {"cpu": "100m", "memory": "256Mi"}
    """Resource requests of each pod."""
    limits: dict[str, Quantity] = {"memory": "512Mi"}
    """Resource limits of each pod."""


class Component(Part):
    replicas: Annotated[int, Field(ge=0, le=100)] = 2
    """How many pods."""
    resources: Resources = Resources()
    """CPU and memory of each pod."""
    egress_ports: Annotated[list[Port], Field(min_length=1)] = [DATABASE_PORT]
    """TCP ports that it may connect to if networkPolicy is true, in addition to DNS; all need the
    database's."""
    database: SecretKey | None = None
    """Secret with the URL of its own login; default: the owner's, in `database`."""


class Accounts(Part):
    api: NodeName = "gpupool-api"
    """ServiceAccount of the API, which verifies the tokens of pods."""
    executor: NodeName = "gpupool-launcher"
    """ServiceAccount of the executor, which creates the Jobs."""


class Toleration(Part):
    key: LabelKey | None = None
    """Key of the taint; default: every taint."""
    operator: Literal["Equal", "Exists"] = "Equal"
    """How the taint is compared."""
    value: LabelValue | None = None
    """Value of the taint."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint; default: every effect."""


class ServiceMonitor(Part):
    interval: Duration = "30s"
    """Scrape interval."""
    api_key: SecretKey
    """API key with the scope metrics:read."""
    labels: dict[LabelKey, LabelValue] = {}
    """Labels by which a Prometheus selects the ServiceMonitor."""


class Values(Part):
    """Values of the chart gpu-scheduler."""

    image: PinnedImage
    """Image with the gpupool command, pinned by a version or a digest."""
    image_pull_secrets: list[NodeName] = []
    """Secrets with the registry's credentials."""
    environment: Name
    """Name of the environment that the queue serves."""
    files: dict[FilePath, str]
    """Path -> text of the environment file, and of the project's GPU models and policies."""
    database: SecretKey
    """Secret with PostgreSQL's URL, with the login that owns and migrates the tables."""
    webhook: SecretKey | None = None
    """Secret with the URL of the webhook for alerts; default: none."""
    smtp_password: SecretKey | None = None
    """Secret with the mail server's password; default: no login."""
    nats: SecretKey | None = None
    """Secret with the URL of NATS and its credentials; default: the URL in the environment file, without
    credentials."""
    metrics_key: SecretKey | None = None
    """Secret with the key that lets Prometheus read the metrics; default: only API keys with metrics:read."""
    host: Literal["0.0.0.0", "::"] = "0.0.0.0"  # noqa: S104 - of a pod
    """Address that pods listen on; `::` in clusters without IPv4."""
    service_accounts: Accounts = Accounts()
    """Service accounts of the pods. `gpupool render` and `up` create them with their permissions; the chart
    creates none."""
    api: Component = Component(egress_ports=[DATABASE_PORT, *API_SERVER_PORTS])
    """HTTP API and web pages."""
    dispatcher: Component = Component(egress_ports=[DATABASE_PORT, 443, 587, 4222])
    """Schedules jobs; publishes events, sends alerts and cleans up. One pod of each is the leader, the others
    wait."""
    executor: Component = Component(egress_ports=[DATABASE_PORT, 80, *API_SERVER_PORTS])
    """Starts scheduled jobs."""
    network_policy: bool = True
    """Whether NetworkPolicies close pods to everything that the queue does not need."""
    service_monitor: ServiceMonitor | None = None
    """Lets the Prometheus operator scrape the pods; default: not scraped."""
    node_selector: dict[LabelKey, LabelValue] = {}
    """Labels of the nodes that pods run on."""
    tolerations: list[Toleration] = []
    """Taints that pods tolerate."""
    priority_class_name: Annotated[str, StringConstraints(pattern=r"^[-a-z0-9.]*$", max_length=253)] = ""
    """PriorityClass of the pods."""
