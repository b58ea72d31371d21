"""The job queue, as a section of the environment file.

As strict as the rest (`gpupool.environment.spec`, which puts the sections together), and as free of
cross-checks.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from gpupool.environment.spec.field_types import (
    CALLABLE,
    Duration,
    DurationWithDays,
    Hint,
    Image,
    Model,
    Name,
    Network,
    Origin,
    PlainAddress,
    Positive,
    Share,
    Version,
)

_Said = Annotated[str, StringConstraints(min_length=1, max_length=253)]
_Host = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$|^[0-9a-fA-F:.]+$", max_length=253),
    Hint("a host's name or address alone, such as mail.example.com"),
]
_Address = Annotated[
    str, StringConstraints(pattern=r"^[^@\s]+@[^@\s]+$", max_length=254), Hint("an e-mail address")
]


class SecretRef(Model):
    name: Name
    """Name of the Secret."""
    key: str
    """Key in the Secret."""


class Database(Model):
    secret_ref: SecretRef
    """Secret with the connection URL."""


class Nats(Model):
    url: Annotated[
        str,
        StringConstraints(pattern=r"^(nats|tls|ws|wss)://"),
        PlainAddress,
        Hint("an address such as nats://nats.nats:4222"),
    ]
    """Server address, without credentials; see `secretRef`."""
    secret_ref: SecretRef | None = None
    """Secret with a URL that contains credentials; it replaces `url`."""


class Smtp(Model):
    host: _Host
    """Mail server: its name or address alone."""
    port: Annotated[int, Field(ge=1, le=65535)] = 587
    """Port of the mail server; 465 uses TLS from the start, other ports use STARTTLS if the server offers it.
    Without TLS, no password is sent."""
    sender: Annotated[_Address, Field(alias="from")]
    """Sender address of alerts."""
    to: Annotated[list[_Address], Field(min_length=1, max_length=50)]
    """Recipients of alerts."""
    user: _Said | None = None
    """User name for the login; default: the address in `from`."""
    secret_ref: SecretRef | None = None
    """Secret with the password; default: no login."""


class Alerts(Model):
    webhook_secret_ref: SecretRef | None = None
    """Secret with the URL of a Slack-compatible webhook."""
    smtp: Smtp | None = None
    """Mail server for alerts by e-mail; default: no e-mail."""


class Auth(Model):
    issuer: Annotated[
        str,
        StringConstraints(pattern=r"^https?://[^/\s]+", max_length=500),
        PlainAddress,
        CALLABLE,
        Hint("an address such as https://id.example.com"),
    ]
    """Issuer (`iss`) of accepted tokens: the address of the OIDC provider."""
    audience: _Said
    """Audience (`aud`) of accepted tokens."""


class Idle(Model):
    prometheus: Annotated[
        str,
        StringConstraints(pattern=r"^https?://[^/@?#\s]+(/[^?#\s]*)?$", max_length=500),
        CALLABLE,
        Hint("an address such as http://prometheus.monitoring:9090"),
    ]
    """Address of the Prometheus with the DCGM exporter's metrics."""
    below: Annotated[Share, Field(gt=0)] = 0.05
    """GPU utilization, 0 to 1, below which a job is idle."""
    for_: Annotated[Duration, Field(alias="for")] = "30m"
    """How long a job must be idle before the action."""
    action: Literal["warn", "stop"] = "warn"
    """The action for an idle job."""


class Logs(Model):
    keep_mib: Annotated[Positive, Field(alias="keepMiB")] = 10
    """MiB of log that are kept per attempt: half from its beginning, half from its end."""
    keep_for: DurationWithDays = "7d"
    """How long logs are kept after the job ends."""


class Chart(Model):
    repository: Annotated[
        str,
        StringConstraints(pattern=r"^(https|oci)://[^/\s]+[^\s]*$", max_length=500),
        PlainAddress,
        Hint("an address such as oci://registry.example.com/charts"),
    ]
    """Location of the chart gpu-scheduler: a chart repository, or oci:// and a registry path."""
    image: Image
    """Image with the gpupool command, pinned by a version or a digest."""
    version: Version | None = None
    """Version of the chart; default: this gpupool's."""
    values: dict[str, Any] = {}
    """Chart values that are merged over those that gpupool generates."""


class Start(Model):
    unscheduled: Duration = "15m"
    """How long a job's pod may be unscheduled before the attempt fails."""
    not_started: Duration = "15m"
    """How long its container may take to start on a node before the attempt fails."""


class Queue(Model):
    enabled: bool = True
    """Whether the job queue is installed."""
    engine: Literal["builtin", "kueue"] = "builtin"
    """builtin: gpupool's own queue. kueue: objects for an existing Kueue."""
    ordering: Literal["fifo", "priority", "fair-share"] = "fair-share"
    """Order of waiting jobs."""
    aging: Duration = "30m"
    """Waiting time that raises a job by one level."""
    reserve_after: Duration = "10m"
    """Waiting time after which capacity is reserved for a job."""
    minimum_runtime: Duration = "1m"
    """Minimum run time before a job may be preempted: by a job of a higher priority, or, if it has borrowed,
    by a tenant below its grant."""
    on_impossible: Literal["wait", "fail"] = "wait"
    """What happens to a waiting job when a change to this file removes what it asks for. wait: it waits until
    the file has it again, or until its deadline. fail: it fails immediately, even if the change is reverted
    later."""
    retries: Annotated[int, Field(ge=0, le=20)] = 3
    """Maximum number of retries of attempts that the platform failed to start (no node, a pod that does not
    start). A job's own failures are retried as often as the job says, by default never; preempted attempts
    and those that lose their node are always retried."""
    default_timeout: Duration = "4h"
    """Timeout of jobs that name none."""
    start: Start = Start()
    """Time limits for starting jobs on the cluster."""
    event_prefix: Annotated[
        str,
        StringConstraints(pattern=r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$"),
        Hint("words of letters, digits, - and _ joined by dots"),
    ] = "mlops.gpu.jobs"
    """Prefix of event subjects."""
    url: Origin | None = None
    """Public address of the API and its pages, such as https://queue.example.com. The API then answers only
    to this name and the Service's, and with https sets secure cookies; default: any name."""
    chart: Chart | None = None
    """Installs the queue in the cluster, with Helm; default: not installed."""
    targets: Annotated[list[Origin], Field(max_length=1000)] = []
    """Origins that HTTP jobs may call, such as https://models.example.com; default: none."""
    database: Database | None = None
    """PostgreSQL; default: an embedded PostgreSQL."""
    nats: Nats | None = None
    """Event broker; default: none."""
    auth: Auth | None = None
    """OIDC provider whose tokens the queue accepts; default: only API keys."""
    trusted_proxies: Annotated[list[Network], Field(max_length=100)] = []
    """Networks of proxies whose X-Forwarded-For the queue trusts, such as 10.0.0.0/8; default: none."""
    idle: Idle | None = None
    """What happens to jobs that hold GPUs without using them; default: nothing."""
    logs: Logs = Logs()
    """Retention of job logs."""
    metrics_key_secret_ref: SecretRef | None = None
    """Secret with the key that lets Prometheus read the queue's metrics, at least 32 characters; with
    monitoring.prometheusOperator, the chart's ServiceMonitor uses it."""
    alerts: Alerts = Alerts()
    """Recipients of alerts."""
