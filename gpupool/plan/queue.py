"""The settings of a Plan's job queue.

Frozen values and no I/O, like the rest of the Plan (`gpupool.plan`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


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
    retries: int = 3
    """Attempts after the first, of jobs that name no number."""
    default_timeout_s: int = 14400
    """How long a job may run that names no timeout."""
    unscheduled_s: int = 900
    """How long a job's pod may be without a node."""
    not_started_s: int = 900
    """How long its container may then take to start."""
    longest_timeout_s: int = 1209600
    """The longest timeout that a job may name: policies.limits.jobDeadline."""
    event_prefix: str = "mlops.gpu.jobs"
    targets: tuple[str, ...] = ()
    """Origins (scheme, host, port) that HTTP jobs may call."""
    database: SecretKey | None = None
    """Where the URL of PostgreSQL is; None: an embedded one."""
    nats_url: str | None = None
    """None: no broker."""
    auth_issuer: str | None = None
    """OIDC provider; None: API keys alone."""
    auth_audience: str | None = None
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
