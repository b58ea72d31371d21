"""What runs beside the pools, as sections of the environment file: policies, monitoring, the ceiling of cost.

As strict as the rest (`gpupool.environment.spec`, which puts the sections together), and as free of
cross-checks.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from gpupool.environment.spec.field_types import (
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
    """The waived policy."""
    namespace: Name | None = None
    """Namespace of the waiver; default: all namespaces."""
    owner: Text
    """The owner of the exception."""
    reason: Text
    """Why the policy can't be met."""
    until: Day
    """Last day of the waiver."""

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
    """DeviceClasses that tenants may claim (resource.k8s.io), such as one of network cards; default: none.
    Quotas do not count their devices."""
    job_ttl: Duration = "168h"
    """Longest ttlSecondsAfterFinished of a GPU job."""
    job_deadline: Duration = "336h"
    """Longest activeDeadlineSeconds of a GPU job."""
    job_retries: Annotated[int, Field(ge=0, le=100)] = 3
    """Largest number of retries of a GPU job (backoffLimit), or per index (backoffLimitPerIndex). Kubernetes'
    own default is 6."""
    budget_after: Duration = "12h"
    """GPU jobs that may run longer than this must name a budget."""
    pod_grace: Duration = "1h"
    """Longest terminationGracePeriodSeconds of tenants' pods: how long a terminating pod may keep its GPU and
    node."""


class Policies(Model):
    default: Literal["deny", "warn", "audit"] = "deny"
    """What happens on a violation."""
    scope: Literal["gpu", "cluster"] = "gpu"
    """Which pods, quotas and NodePools the policies check. gpu: everything in tenants' namespaces, pods in
    other namespaces that ask for a GPU or select a pool, and NodePools of pools. cluster: everything."""
    overrides: dict[Name, Literal["deny", "warn", "audit"]] = {}
    """Actions by policy that differ from the default."""
    waivers: list[Waiver] = []
    """Exceptions with an end date."""
    limits: PolicyLimits = PolicyLimits()
    """Site-specific limits that policies enforce."""


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
    """Address of a Prometheus Pushgateway for the metrics; default: none."""


class Cost(Model):
    monthly_usd_max: Usd | None = None
    """Limit in USD per month for the cost of all pools at their maximum, and for the sum of tenants' budgets;
    default: no limit."""


class MonitoringAlerts(Model):
    queue_wait: Duration = "5m"
    """Waiting time for capacity above which an alert fires."""
    queue_length: Positive = 10
    """Number of a tenant's waiting jobs above which an alert fires."""
    gpu_hot: Positive = 5
    """Degrees below a GPU's slowdown temperature at which an alert fires."""
    runbooks: (
        Annotated[
            str,
            StringConstraints(pattern=r"^https?://[^/\s]+"),
            PlainAddress,
            Hint("an address such as https://wiki.example.com/gpupool/alerts"),
        ]
        | None
    ) = None
    """Page that alerts link to, with their name as anchor; you can publish docs/alerts.md. Default: no
    link."""


class Dashboards(Model):
    kind: Literal["ConfigMap", "GrafanaDashboard"] = "ConfigMap"
    """ConfigMap: for the sidecar of Grafana's chart. GrafanaDashboard: for the Grafana operator."""
    namespace: Name = "gpupool-system"
    """Namespace of the ConfigMaps or GrafanaDashboards."""
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
    """Kind and namespace of the dashboards."""
    dcgm_interval: Duration = "15s"
    """Interval at which GPU metrics are read and scraped."""
    gpu_metrics: Literal["standard", "full"] = "standard"
    """full: also metrics of multiprocessors and arithmetic pipes, which adds time series."""
    alerts: MonitoringAlerts = MonitoringAlerts()
    """Thresholds of alerts."""
    assertion: Assertion | None = None
    """Runs `gpupool assert` in the cluster, as a CronJob; default: not run."""
