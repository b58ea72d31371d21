"""What runs beside the pools, as sections of the environment file: policies, monitoring, the ceiling of cost.

As strict as the rest (`gpupool.spec`, which puts the sections together), and as free of cross-checks.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from gpupool.spec.field_types import (
    Day,
    Duration,
    Hint,
    Image,
    LabelKey,
    LabelValue,
    Model,
    Name,
    NodeName,
    PlainAddress,
    Positive,
    Text,
    Usd,
)


class Waiver(Model):
    policy: Name
    """The policy that is waived."""
    namespace: Name | None = None
    """Namespace that it holds in; default: everywhere."""
    owner: Text
    """The owner of the exception."""
    reason: Text
    """Why the policy can't be kept here."""
    until: Day
    """Last day on which it holds."""

    def expired(self, today: date) -> bool:
        return today > self.until


class PolicyLimits(Model):
    registries: list[
        Annotated[
            str,
            StringConstraints(pattern=r"^[a-z0-9][a-z0-9._:/-]*[a-z0-9]$"),
            Hint("the beginning of images' names in lower case, such as registry.example.com/team"),
        ]
    ] = []
    """Registries that images may come from, host or host/path; default: any."""
    device_classes: Annotated[list[NodeName], Field(max_length=50)] = []
    """DeviceClasses that claims may be for in tenants' namespaces (resource.k8s.io), such as one of network
    cards; default: none. Nothing counts their devices."""
    job_ttl: Duration = "168h"
    """Longest ttlSecondsAfterFinished of a GPU job."""
    job_deadline: Duration = "336h"
    """Longest activeDeadlineSeconds of a GPU job."""
    job_retries: Annotated[int, Field(ge=0, le=100)] = 3
    """Largest number of retries of a GPU job (backoffLimit), or of each index of one that counts them apart
    (backoffLimitPerIndex). Kubernetes' own default is 6."""
    budget_after: Duration = "12h"
    """GPU jobs that may run longer than this must name a budget."""
    pod_grace: Duration = "1h"
    """Longest terminationGracePeriodSeconds of tenants' pods: so long a pod may keep its GPU, and its node,
    while it terminates."""


class Policies(Model):
    default: Literal["deny", "warn", "audit"] = "deny"
    """What happens on a violation."""
    scope: Literal["gpu", "cluster"] = "gpu"
    """What the policies on pods, quotas and NodePools judge. gpu: everything in tenants' namespaces, in
    others the pods that ask for a GPU or select a pool, and of NodePools those of pools. cluster:
    everything."""
    overrides: dict[Name, Literal["deny", "warn", "audit"]] = {}
    """Other actions, by policy."""
    waivers: list[Waiver] = []
    """Exceptions that end."""
    limits: PolicyLimits = PolicyLimits()
    """What policies hold workloads to, where sites differ."""


class Assertion(Model):
    image: Image
    """Image with the gpupool command, pinned by a version or a digest."""
    schedule: Annotated[str, StringConstraints(min_length=1, max_length=100)] = "*/10 * * * *"
    """When to run, as a CronJob schedule."""
    pushgateway: (
        Annotated[
            str,
            StringConstraints(pattern=r"^https?://[^/\s]+"),
            PlainAddress,
            Hint("an address such as http://pushgateway.monitoring:9091"),
        ]
        | None
    ) = None
    """Address of a Prometheus Pushgateway that gets the figures; default: none."""


class Cost(Model):
    monthly_usd_max: Usd | None = None
    """Most that all pools at their maximum may cost a month, and that tenants' budgets may add up to, in USD;
    default: no ceiling."""


class MonitoringAlerts(Model):
    queue_wait: Duration = "5m"
    """How long a job may wait for capacity before an alert."""
    queue_length: Positive = 10
    """How many jobs of a tenant may wait before an alert."""
    gpu_hot: Positive = 5
    """Degrees below the temperature at which a GPU slows down, from which it counts as hot."""
    runbooks: (
        Annotated[
            str,
            StringConstraints(pattern=r"^https?://[^/\s]+"),
            PlainAddress,
            Hint("an address such as https://wiki.example.com/gpupool/alerts"),
        ]
        | None
    ) = None
    """Page that alerts link to, at the heading of their name; docs/alerts.md is one to publish. Default: no
    link."""


class Dashboards(Model):
    kind: Literal["ConfigMap", "GrafanaDashboard"] = "ConfigMap"
    """ConfigMap: for the sidecar of Grafana's chart. GrafanaDashboard: for Grafana's operator."""
    namespace: Name = "gpupool-system"
    """Where the ConfigMaps or GrafanaDashboards go."""
    folder: Text = "GPU pools"
    """Folder in Grafana."""


class Monitoring(Model):
    prometheus_operator: bool = False
    """Whether the cluster has the Prometheus operator, for ServiceMonitors and a PrometheusRule."""
    labels: dict[LabelKey, LabelValue] = {}
    """Labels by which a Prometheus selects ServiceMonitors and PrometheusRules, such as release."""
    grafana: bool = False
    """Whether dashboards are generated."""
    dashboards: Dashboards = Dashboards()
    """What they are made as, and where they go."""
    dcgm_interval: Duration = "15s"
    """How often GPU metrics are read and scraped."""
    gpu_metrics: Literal["standard", "full"] = "standard"
    """full: also what multiprocessors and arithmetic pipes do, at the price of more series."""
    alerts: MonitoringAlerts = MonitoringAlerts()
    """Thresholds of alerts."""
    assertion: Assertion | None = None
    """Run `gpupool assert` in the cluster, as a CronJob; default: don't."""
