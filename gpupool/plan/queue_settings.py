"""The queue's section of an environment file -> QueueSettings. Fills in what follows from other fields, and
checks nothing."""

from __future__ import annotations

from typing import Any

from gpupool import __version__
from gpupool.plan.queue import Chart, QueueSettings, SecretKey, Smtp
from gpupool.spec import queue as spec
from gpupool.spec.environment import Environment
from gpupool.spec.field_types import duration_seconds


def queue_settings(environment: Environment) -> QueueSettings:
    """The settings of `environment`, which is sound."""
    given = environment.queue
    longest = duration_seconds(environment.policies.limits.job_deadline)
    return QueueSettings(
        enabled=given.enabled,
        engine=given.engine,
        ordering=given.ordering,
        aging_s=duration_seconds(given.aging),
        reserve_after_s=duration_seconds(given.reserve_after),
        retries=given.retries,
        default_timeout_s=min(duration_seconds(given.default_timeout), longest),
        longest_timeout_s=longest,
        unscheduled_s=duration_seconds(given.start.unscheduled),
        not_started_s=duration_seconds(given.start.not_started),
        event_prefix=given.event_prefix,
        targets=tuple(given.targets),
        database=_secret(given.database.secret_ref) if given.database else None,
        nats_url=given.nats.url if given.nats else None,
        auth_issuer=given.auth.issuer if given.auth else None,
        auth_audience=given.auth.audience if given.auth else None,
        **_idle(given.idle),
        logs_keep_mib=given.logs.keep_mib,
        logs_keep_for_s=duration_seconds(given.logs.keep_for),
        webhook=_secret(given.alerts.webhook_secret_ref),
        smtp=_smtp(given.alerts.smtp),
        chart=_chart(given.chart),
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
