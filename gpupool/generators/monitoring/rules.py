"""Recording rules and alerts of an environment, as Prometheus reads them: thresholds come from the Plan.

The expressions are in `rules.yaml`; this is their only reader, and adds none of its own but for what depends
on tenants and pools one by one. Tests are promtool's (tests/generators/monitoring).
"""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.tenants import Tenant
from gpupool.environment.spec.field_types import duration_seconds
from gpupool.generators.monitoring import exporter

EXPORTER_JOB = "nvidia-dcgm-exporter"
"""The value of `job` on the exporter's series: its Service's label `app` (gpu-operator v26.7.0)."""
CARD = "node, pool, gpu, UUID"
"""What distinguishes GPUs."""
INSTANCE = f"{CARD}, modelName, GPU_I_ID, GPU_I_PROFILE"
"""What distinguishes GPUs and MIG instances, whatever pods they have."""
POOL_USE = "gpupool:pool_engine_active:ratio"
"""The mean use of a pool's GPUs, as dashboards and the queue's page show it."""
_INTERVAL_S = 60
"""How often rules are evaluated, in seconds."""
_IDLE_BELOW, _IDLE_FOR_S = 0.05, 1800
"""What is idle where queue.idle does not say it."""
_LATE_RUNS = 3
_SPOT_TOLERANCE = 0.1
_PLACEHOLDER = re.compile(r"<([a-z_]+)>")
_DIR = Path(__file__).parent

Group = dict[str, Any]


def _has_queue(plan: Plan) -> bool:
    """Whether a queue of ours runs and Prometheus reads it. Its absence is an alert, so what was never there
    must have no rules: in a cluster the chart installs it, and Prometheus' operator has the key for it."""
    queue = plan.queue
    if not queue.enabled or queue.engine != "builtin" or not plan.tenants:
        return False
    if plan.cluster.platform == "local":
        return True
    return queue.chart is not None and (
        queue.metrics_key is not None or not plan.monitoring.prometheus_operator
    )


def _checks_itself(plan: Plan) -> bool:
    """Whether the figures of `gpupool assert` reach a Prometheus."""
    return plan.assertion is not None and plan.assertion.pushgateway is not None


def _spot_pools(plan: Plan) -> list[tuple[str, float]]:
    return [(pool.name, pool.spot_share) for pool in plan.pools if 0 < pool.spot_share < 1]


CONDITIONS: Mapping[str, Callable[[Plan], bool]] = {
    "exporter": exporter.runs,
    "queue": _has_queue,
    "idle": lambda plan: _has_queue(plan) and plan.queue.idle_prometheus is not None,
    "shared": lambda plan: bool(exporter.shared_pools(plan)),
    "spot": lambda plan: _has_queue(plan) and bool(_spot_pools(plan)),
    "budget": lambda plan: _has_queue(plan) and any(_budgets(plan)),
    "assertion": _checks_itself,
}
"""Which environments have what a rule or panel `needs`: its series come from there, and without it they
never come. Every group of rules, and every board or row of panels, names one."""


def groups(plan: Plan) -> list[Group]:
    """Every group of rules of the environment, as a rules file and a PrometheusRule have them."""
    known = values(plan)
    data = _data()
    found = []
    for row in (*data["recording"], *data["alerts"]):
        if not holds(row, plan):
            continue
        repeated = _budget_values(plan) if row.get("each") == "budget" else [{}]
        rules = [
            _rule(rule, {**known, **more}, plan)
            for more in repeated
            for rule in row["rules"]
            if holds(rule, plan)
        ]
        if row["group"] == "gpupool.gpu.rules":
            rules = [*_parts(plan), *rules]
        found.append({"name": row["group"], "interval": f"{_INTERVAL_S}s", "rules": rules})
    return found


def holds(row: Mapping[str, Any], plan: Plan) -> bool:
    """Whether the environment has what a group, rule, board, row or panel needs."""
    return "needs" not in row or CONDITIONS[row["needs"]](plan)


def filled(text: str, known: Mapping[str, str]) -> str:
    """The text with the values of its <names>."""
    return _PLACEHOLDER.sub(lambda name: known[name[1]], text)


def _rule(row: Mapping[str, Any], known: Mapping[str, str], plan: Plan) -> dict[str, Any]:
    if "record" in row:
        return {"record": row["record"], "expr": filled(row["expr"], known).strip()}
    runbooks = plan.monitoring.alerts.runbooks
    link = {"runbook_url": f"{runbooks}#{row['alert'].lower()}"} if runbooks else {}
    return {
        "alert": row["alert"],
        "expr": filled(row["expr"], known).strip(),
        **({"for": row["for"]} if "for" in row else {}),
        "labels": {
            name: filled(text, known)
            for name, text in {"severity": row["severity"], **row.get("labels", {})}.items()
        },
        "annotations": {name: filled(row[name], known) for name in ("summary", "description")} | link,
    }


def _parts(plan: Plan) -> Iterator[dict[str, Any]]:
    """What share of its GPU each instance is, to weigh its use by: a constant series for each profile
    of a pool, and one for its whole GPUs, which are not beside instances on a node."""
    for pool in plan.pools:
        sizes = {"": "1"}
        if mig := pool.gpu.mig:
            for name in pool.sharing.layout or ():
                sizes[name] = f"{mig.profile(name).compute_slices} / {mig.compute_slices}"
        for name, size in sorted(sizes.items()):
            labels = {"pool": pool.name, **({"GPU_I_PROFILE": name} if name else {})}
            yield {"record": "gpupool:gpu_part:ratio", "expr": f"vector({size})", "labels": labels}


def values(plan: Plan) -> dict[str, str]:
    """What the <names> of rules and dashboards stand for."""
    alerts, queue = plan.monitoring.alerts, plan.queue
    below = queue.idle_below if queue.idle_below is not None else _IDLE_BELOW
    idle_for = queue.idle_for_s if queue.idle_below is not None else _IDLE_FOR_S
    xids = yaml.safe_load((_DIR / "xids.yaml").read_bytes())
    return {
        "gpu": INSTANCE,
        "card": CARD,
        "environment": plan.environment,
        "exporter_job": EXPORTER_JOB,
        "idle_below": f"{below:g}",
        "idle_percent": f"{below * 100:g}",
        "idle_for": f"{idle_for}s",
        "idle_samples": str(max(1, idle_for // _INTERVAL_S * 9 // 10)),
        "hot_below": str(alerts.gpu_hot),
        "wait_seconds": str(duration_seconds(alerts.queue_wait)),
        "queue_length": str(alerts.queue_length),
        "xids_of_no_alert": "|".join(map(str, (0, *xids["none"], *xids["critical"]))),
        "xids_of_the_machine": "|".join(map(str, xids["critical"])),
        "shared_pools": "|".join(pool.name for pool in exporter.shared_pools(plan)),
        "spot_below": " or ".join(_spot_below(*pool) for pool in _spot_pools(plan)),
        "operator_namespace": plan.gpu_operator.namespace,
        "assert_late": str(_LATE_RUNS * _every_seconds(plan)),
    }


def _spot_below(pool: str, share: float) -> str:
    held = f'gpupool:queue_gpus:count{{pool="{pool}"'
    limit = max(0.0, share - _SPOT_TOLERANCE)
    spot = f'sum by (pool) ({held}, capacity_type="spot"}})'
    return f"{spot} / (sum by (pool) ({held}}}) > 0) < {limit:g}"


_FIELDS = re.compile(r"\*/(\d+) \* \* \* \*")
_HOUR, _DAY = 3600, 24 * 3600


def _every_seconds(plan: Plan) -> int:
    """How often the cluster checks itself, in seconds, at least; a schedule that is not a number of minutes
    counts as hourly where its hour is open, and as daily else."""
    schedule = plan.assertion.schedule if plan.assertion else ""
    minutes = _FIELDS.fullmatch(schedule)
    if minutes:
        return int(minutes[1]) * 60
    hourly = schedule == "@hourly" or schedule.split()[1:2] == ["*"]
    return _HOUR if hourly else _DAY if schedule not in ("@weekly", "@monthly") else 31 * _DAY


def _budgets(plan: Plan) -> Iterator[tuple[Tenant, str, tuple[float, ...]]]:
    """Tenant, project (empty: the tenant as a whole), and the shares at which alerts go out."""
    for tenant in plan.tenants:
        if tenant.budget is not None:
            yield tenant, "", tuple(tenant.budget.alert_at)
        for project in tenant.projects:
            if project.budget is not None:
                yield tenant, project.name, tuple(project.budget.alert_at)


def _budget_values(plan: Plan) -> Iterator[dict[str, str]]:
    """One alert for each share, of all that have it: Prometheus knows no thresholds for each series."""
    whose: dict[float, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for tenant, project, shares in _budgets(plan):
        for share in shares:
            whose[share][tenant.name].append(project)
    for share, scopes in sorted(whose.items()):
        alike: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for name, projects in scopes.items():
            alike[tuple(projects)].append(name)
        used = " or ".join(
            f'gpupool:queue_budget_used:ratio{{tenant=~"{"|".join(names)}", project=~"{"|".join(projects)}"}}'
            for projects, names in alike.items()
        )
        yield {
            "budget_used": f"({used})" if len(alike) > 1 else used,
            "budget_share": f"{share:g}",
            "budget_percent": f"{share * 100:g}",
            "budget_severity": "warning" if share >= 1 else "info",
        }


@functools.cache
def _data() -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load((_DIR / "rules.yaml").read_bytes())
    return data
