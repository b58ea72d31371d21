"""The settings of a Plan's job queue, and how they follow from the environment file.

Frozen values and no I/O, like the rest of the Plan (`gpupool.environment.plan`). Checks nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from gpupool import __version__
from gpupool.environment.spec import queue as spec
from gpupool.environment.spec.environment import Environment
from gpupool.environment.spec.field_types import duration_seconds

RELEASE = "gpu-scheduler"
"""The Helm release, whose name the Service of the API has in the cluster."""


@dataclass(frozen=True, slots=True)
class SecretKey:
    """A key of a Secret."""

    name: str
    key: str


@dataclass(frozen=True, slots=True)
class Chart:
    """The chart that runs the queue in a cluster."""

    repository: str
    version: str
    image: str
    values: Mapping[str, Any]
    """The user's own, merged over the derived ones."""


@dataclass(frozen=True, slots=True)
class Smtp:
    """The mail server that alerts go through."""

    host: str
    port: int
    sender: str
    to: tuple[str, ...]
    user: str
    """The user name, if there is a password."""
    password: SecretKey | None
    """None: no login."""


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """How the queue works in this environment; durations in seconds."""

    enabled: bool = True
    engine: str = "builtin"
    """builtin or kueue."""
    ordering: str = "fair-share"
    """fifo, priority or fair-share."""
    aging_s: int = 1800
    """Waiting time that lifts a job by one level."""
    reserve_after_s: int = 600
    """Waiting time after which capacity is held for a job."""
    minimum_runtime_s: int = 60
    """How long a job has run at least before it gives way to another."""
    on_impossible: str = "wait"
    """wait or fail: what becomes of a job that waits for what the Plan no longer has."""
    retries: int = 3
    """How often an attempt that the platform kept from starting is made again."""
    default_timeout_s: int = 14400
    """How long a job may run that names no timeout."""
    unscheduled_s: int = 900
    """How long a job's pod may be without a node."""
    not_started_s: int = 900
    """How long its container may then take to start."""
    longest_timeout_s: int = 1209600
    """The longest timeout that a job may name: policies.limits.jobDeadline."""
    event_prefix: str = "mlops.gpu.jobs"
    url: str | None = None
    """Origin under which browsers reach the API and its pages; None: any name is answered to."""
    targets: tuple[str, ...] = ()
    """Origins (scheme, host, port) that HTTP jobs may call."""
    database: SecretKey | None = None
    """Where the URL of PostgreSQL is; None: an embedded one."""
    nats_url: str | None = None
    nats_secret: SecretKey | None = None
    """Where the URL with credentials is."""
    """None: no broker."""
    auth_issuer: str | None = None
    """OIDC provider; None: API keys alone."""
    auth_audience: str | None = None
    trusted_proxies: tuple[str, ...] = ()
    """Networks of proxies whose X-Forwarded-For is believed."""
    idle_below: float | None = None
    """Share of a GPU's time in use under which a job is idle; None: none is."""
    idle_for_s: int = 1800
    idle_action: str = "warn"
    """warn or stop."""
    idle_prometheus: str | None = None
    """Address of the Prometheus that knows; None where no job is idle."""
    logs_keep_mib: int = 10
    """Kept of the log of each attempt."""
    logs_keep_for_s: int = 604800
    metrics_key: SecretKey | None = None
    """Where the key is by which Prometheus may read the metrics."""
    webhook: SecretKey | None = None
    """Where the URL of the Slack-compatible webhook is."""
    smtp: Smtp | None = None

    chart: Chart | None = None
    """None: the queue is not installed in the cluster."""

    def as_dict(self) -> dict[str, Any]:
        """The settings as `plan --format json` has them, in camelCase."""
        return {_camel(name): value for name, value in asdict(self).items()}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join("Seconds" if word == "s" else word.capitalize() for word in rest)


def queue_settings(environment: Environment) -> QueueSettings:
    """The settings of `environment`, which is sound."""
    queue = environment.queue
    longest = duration_seconds(environment.policies.limits.job_deadline)
    return QueueSettings(
        enabled=queue.enabled,
        engine=queue.engine,
        ordering=queue.ordering,
        aging_s=duration_seconds(queue.aging),
        minimum_runtime_s=duration_seconds(queue.minimum_runtime),
        reserve_after_s=duration_seconds(queue.reserve_after),
        on_impossible=queue.on_impossible,
        retries=queue.retries,
        default_timeout_s=min(duration_seconds(queue.default_timeout), longest),
        longest_timeout_s=longest,
        unscheduled_s=duration_seconds(queue.start.unscheduled),
        not_started_s=duration_seconds(queue.start.not_started),
        event_prefix=queue.event_prefix,
        url=queue.url,
        targets=tuple(queue.targets),
        database=_secret(queue.database.secret_ref) if queue.database else None,
        nats_url=queue.nats.url if queue.nats else None,
        nats_secret=_secret(queue.nats.secret_ref) if queue.nats else None,
        auth_issuer=queue.auth.issuer if queue.auth else None,
        auth_audience=queue.auth.audience if queue.auth else None,
        trusted_proxies=tuple(queue.trusted_proxies),
        **_idle(queue.idle),
        logs_keep_mib=queue.logs.keep_mib,
        logs_keep_for_s=duration_seconds(queue.logs.keep_for),
        metrics_key=_secret(queue.metrics_key_secret_ref),
        webhook=_secret(queue.alerts.webhook_secret_ref),
        smtp=_smtp(queue.alerts.smtp),
        chart=_chart(queue.chart),
    )


def _chart(given: spec.Chart | None) -> Chart | None:
    return Chart(given.repository, given.version or __version__, given.image, given.values) if given else None


def _idle(given: spec.Idle | None) -> dict[str, Any]:
    if given is None:
        return {}
    return {
        "idle_below": given.below,
        "idle_for_s": duration_seconds(given.for_),
        "idle_action": given.action,
        "idle_prometheus": given.prometheus,
    }


def _secret(given: spec.SecretRef | None) -> SecretKey | None:
    return SecretKey(given.name, given.key) if given else None


def _smtp(given: spec.Smtp | None) -> Smtp | None:
    if given is None:
        return None
    return Smtp(
        given.host,
        given.port,
        given.sender,
        tuple(given.to),
        given.user or given.sender,
        _secret(given.secret_ref),
    )
