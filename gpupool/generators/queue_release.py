"""The queue in the cluster: the Helm release of charts/gpu-scheduler, with what the file says as its values.

Accounts and rights are `rbac`'s. The chart and its image are the user's to publish: without
`queue.chart` there is no release. Must not hold a default for what the chart's values have one for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from gpupool.environment.plan.helm_values import merged
from gpupool.environment.plan.model import SYSTEM_NAMESPACE, Plan
from gpupool.environment.plan.queue import RELEASE, Chart, SecretKey
from gpupool.environment.schema import chart_values as chart
from gpupool.generators.manifest import HelmRelease
from gpupool.generators.project_files import gpu_texts, policy_texts

NAME = RELEASE
_DEFAULT_PORTS = {"http": 80, "https": 443, "nats": 4222, "tls": 4222, "ws": 80, "wss": 443}


def generate(plan: Plan) -> Iterator[HelmRelease]:
    queue = plan.queue
    if queue.chart is None or not queue.enabled or queue.engine != "builtin" or queue.database is None:
        return
    if plan.cluster.platform == "local":
        return  # its pods only look as if they ran
    yield HelmRelease(
        name=NAME,
        namespace=SYSTEM_NAMESPACE,
        chart=NAME,
        repository=queue.chart.repository,
        version=queue.chart.version,
        values=merged(values(plan, queue.chart, queue.database), queue.chart.values),
    )


def values(plan: Plan, given: Chart, database: SecretKey) -> dict[str, Any]:
    """What the chart can't know by itself."""
    smtp = plan.queue.smtp
    made = chart.Values(
        image=given.image,
        environment=plan.environment,
        files={
            f"environments/{plan.environment}.yaml": plan.text,
            **{f"catalog/{name}": text for name, text in gpu_texts(plan).items()},
            **{f"policies/{name}": text for name, text in policy_texts(plan).items()},
        },
        database=_secret(database),
        webhook=_secret(plan.queue.webhook) if plan.queue.webhook else None,
        smtp_password=_secret(smtp.password) if smtp and smtp.password else None,
        nats=_secret(plan.queue.nats_secret) if plan.queue.nats_secret else None,
        metrics_key=_secret(plan.queue.metrics_key) if plan.queue.metrics_key else None,
        service_monitor=_monitor(plan),
        api=_opened(*chart.API_SERVER_PORTS, plan.queue.auth_issuer, plan.queue.idle_prometheus),
        dispatcher=_opened(
            plan.queue.nats_url,
            plan.queue.idle_prometheus,
            443 if plan.queue.webhook else None,
            smtp.port if smtp else None,
        ),
        executor=_opened(*chart.API_SERVER_PORTS, *plan.queue.targets),
    )
    return made.model_dump(by_alias=True, exclude_unset=True, exclude_none=True)


def _monitor(plan: Plan) -> chart.ServiceMonitor | None:
    key, monitoring = plan.queue.metrics_key, plan.monitoring
    if key is None or not monitoring.prometheus_operator:
        return None
    return chart.ServiceMonitor(api_key=_secret(key), labels=monitoring.labels)


def _opened(*reached: str | int | None) -> chart.Component:
    """A component that may reach the database and these: ports, or addresses."""
    ports = {one if isinstance(one, int) else _port(one) for one in reached if one}
    return chart.Component(egress_ports=sorted({chart.DATABASE_PORT, *ports}))


def _port(address: str) -> int:
    found = urlsplit(address)
    return found.port or _DEFAULT_PORTS[found.scheme]


def _secret(key: SecretKey) -> chart.SecretKey:
    return chart.SecretKey(name=key.name, key=key.key)
