"""The job queue, as a section of the environment file.

As strict as the rest (`gpupool.spec`, which puts the sections together), and as free of cross-checks.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from gpupool.spec.field_types import (
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
    """Where the connection URL is."""


class Nats(Model):
    url: Annotated[
        str,
        StringConstraints(pattern=r"^(nats|tls|ws|wss)://"),
        PlainAddress,
        Hint("an address such as nats://nats.nats:4222"),
    ]
    """Server address, without credentials: those are in the Secret of `secretRef`."""
    secret_ref: SecretRef | None = None
    """Where the URL with the credentials is, for a server that asks for some; it replaces `url`."""


class Smtp(Model):
    host: _Host
    """Mail server: its name or address alone."""
    port: Annotated[int, Field(ge=1, le=65535)] = 587
    """Its port; 465 is TLS from the start, on others STARTTLS is used where the server offers it.
    Without TLS no password is sent."""
    sender: Annotated[_Address, Field(alias="from")]
    """Address that alerts come from."""
    to: Annotated[list[_Address], Field(min_length=1, max_length=50)]
    """Addresses that alerts go to."""
    user: _Said | None = None
    """User that logs in; default: the address in `from`."""
    secret_ref: SecretRef | None = None
    """Where the password is; default: no login."""


class Alerts(Model):
    webhook_secret_ref: SecretRef | None = None
    """Where the Slack-compatible webhook's URL is."""
    smtp: Smtp | None = None
    """Mail server for alerts by e-mail; default: none are sent."""


class Auth(Model):
    issuer: Annotated[
        str,
        StringConstraints(pattern=r"^https?://[^/\s]+", max_length=500),
        PlainAddress,
        CALLABLE,
        Hint("an address such as https://id.example.com"),
    ]
    """Address of the OIDC provider whose tokens are accepted, as in their `iss`."""
    audience: _Said
    """What tokens must be made for, as in their `aud`."""


class Idle(Model):
    prometheus: Annotated[
        str,
        StringConstraints(pattern=r"^https?://[^/@?#\s]+(/[^?#\s]*)?$", max_length=500),
        CALLABLE,
        Hint("an address such as http://prometheus.monitoring:9090"),
    ]
    """Address of the Prometheus that has DCGM exporter's metrics."""
    below: Annotated[Share, Field(gt=0)] = 0.05
    """Share of a GPU's time in use under which a job is idle."""
    for_: Annotated[Duration, Field(alias="for")] = "30m"
    """How long a job must have been idle."""
    action: Literal["warn", "stop"] = "warn"
    """What then happens to the job."""


class Logs(Model):
    keep_mib: Annotated[Positive, Field(alias="keepMiB")] = 10
    """MiB of the log that are kept of each attempt, one half from its beginning, the other from its end."""
    keep_for: DurationWithDays = "7d"
    """How long logs are kept after the job's end."""


class Chart(Model):
    repository: Annotated[
        str,
        StringConstraints(pattern=r"^(https|oci)://[^/\s]+[^\s]*$", max_length=500),
        PlainAddress,
        Hint("an address such as oci://registry.example.com/charts"),
    ]
    """Where you keep the chart gpu-scheduler: a chart repository, or oci:// and a registry's path."""
    image: Image
    """Image with the gpupool command, pinned by a version or a digest."""
    version: Version | None = None
    """Version of the chart; default: this gpupool's."""
    values: dict[str, Any] = {}
    """Values of the chart that are merged over those that gpupool makes."""


class Start(Model):
    unscheduled: Duration = "15m"
    """How long a job's pod may be without a node; then the attempt has failed."""
    not_started: Duration = "15m"
    """How long its container may take to start on a node."""


class Queue(Model):
    enabled: bool = True
    """Whether the job queue is installed."""
    engine: Literal["builtin", "kueue"] = "builtin"
    """builtin: gpupool's own queue. kueue: objects for a Kueue that is already in charge."""
    ordering: Literal["fifo", "priority", "fair-share"] = "fair-share"
    """Who goes first."""
    aging: Duration = "30m"
    """Waiting time that lifts a job by one level."""
    reserve_after: Duration = "10m"
    """Waiting time after which capacity is held for a job."""
    minimum_runtime: Duration = "1m"
    """How long a job has run at least before it gives way: to one of a higher priority, or to a tenant below
    its grant, where it has borrowed."""
    on_impossible: Literal["wait", "fail"] = "wait"
    """What becomes of a waiting job when this file no longer has what it asks for. wait: it waits until the
    file has it again, or to its deadline. fail: it fails at once, also by a change that is taken back."""
    retries: Annotated[int, Field(ge=0, le=20)] = 3
    """How often an attempt that the platform kept from starting (no node, a pod that does not start) is made
    again. A job's own failures are retried as often as the job says, by default never; attempts that are
    preempted, or that lose their node, always."""
    default_timeout: Duration = "4h"
    """How long a job may run that names no timeout."""
    start: Start = Start()
    """How long jobs may take to start on the cluster."""
    event_prefix: Annotated[
        str,
        StringConstraints(pattern=r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$"),
        Hint("words of letters, digits, - and _ joined by dots"),
    ] = "mlops.gpu.jobs"
    """Prefix of event subjects."""
    url: Origin | None = None
    """Public address of the API and its pages, such as https://queue.example.com: no other name is then
    answered to but the Service's in the cluster, and with https cookies are for https alone; absent: any."""
    chart: Chart | None = None
    """Runs the queue in the cluster, by Helm; absent: it is not installed there."""
    targets: Annotated[list[Origin], Field(max_length=1000)] = []
    """Origins that HTTP jobs may call, such as https://models.example.com; default: none."""
    database: Database | None = None
    """PostgreSQL; absent: an embedded PostgreSQL."""
    nats: Nats | None = None
    """Event broker; absent: none."""
    auth: Auth | None = None
    """OIDC provider whose tokens the queue accepts; absent: API keys alone."""
    trusted_proxies: Annotated[list[Network], Field(max_length=100)] = []
    """Networks of proxies whose X-Forwarded-For the queue believes, such as 10.0.0.0/8; default: none."""
    idle: Idle | None = None
    """What happens to jobs that hold GPUs and do not use them; absent: nothing."""
    logs: Logs = Logs()
    """How much of jobs' logs is kept."""
    metrics_key_secret_ref: SecretRef | None = None
    """Where the key is by which Prometheus may read the queue's metrics, 32 characters or more; with
    monitoring.prometheusOperator the chart has a ServiceMonitor that shows it."""
    alerts: Alerts = Alerts()
    """Where alerts go."""
