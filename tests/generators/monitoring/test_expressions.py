"""Expressions of rules and dashboards parse, name what something emits, and count nothing twice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import promql_parser
import pytest
from prometheus_client import CollectorRegistry

from gpupool.environment.plan.model import Plan
from gpupool.generators.monitoring import boards, exporter, rules
from gpupool.queue.api.figures import figures
from gpupool.queue.api.metrics import _plan_figures
from gpupool.queue.domain.state import BudgetUsage, Holdings, Snapshot
from gpupool.queue.domain.supply import supply_of
from gpupool.queue.measures import Measures
from gpupool.queue.plan_source import PlanState
from tests.generators.monitoring.environments import SHIPPED, everything, queries, shipped

QUEUE = {
    "gpupool_queue_jobs_queued": {"tenant", "priority"},
    "gpupool_queue_jobs_waiting": {"pool", "reason"},
    "gpupool_queue_oldest_wait_seconds": {"tenant", "priority"},
    "gpupool_queue_pool_oldest_wait_seconds": {"pool", "reason"},
    "gpupool_queue_gpus_guaranteed": {"pool", "tenant"},
    "gpupool_queue_gpus_held": {"pool", "tenant", "capacity_type", "by"},
    "gpupool_queue_cost_usd_per_hour": {"tenant", "project", "pool", "capacity_type", "by"},
    "gpupool_queue_settled_usd_total": {"tenant", "project"},
    "gpupool_queue_budget_usd": {"tenant", "project"},
    "gpupool_queue_spent_usd": {"tenant", "project"},
    "gpupool_queue_held_usd": {"tenant", "project"},
    "gpupool_queue_attempts_total": {"pool", "outcome"},
    "gpupool_queue_wait_seconds_bucket": {"tenant", "priority", "le"},
    "gpupool_queue_decision_seconds_bucket": {"le"},
    "gpupool_queue_decision_seconds_count": set[str](),
    "gpupool_queue_idle_unknown_total": set[str](),
    "gpupool_queue_environment_file_refused": set[str](),
}
"""What the queue emits, with its labels."""
OTHERS = {
    "gpupool_assert_clean": {"environment"},
    "gpupool_assert_last_run_timestamp_seconds": {"environment"},
    "up": {"job", "node"},
    "ALERTS": {"alertname", "alertstate", "severity", "pool", "node", "tenant"},
}
OF_TARGETS = {"node", "pool", "exported_namespace", "exported_pod"}
OF_THE_EXPORTER = {"gpu", "UUID", "modelName", "GPU_I_ID", "GPU_I_PROFILE", "xid", "clock_event"}
"""dcgm-exporter d5e5f51, internal/pkg/rendermetrics; the others come with our ServiceMonitor."""
COUNTED_TWICE = re.compile(r"DCGM_(FI|EXP)_|gpupool_queue_(?!decision_|wait_|idle_|attempts_)")
"""What MIG instances, pods or replicas of the queue repeat."""
OF_EACH_PROCESS = (
    "gpupool_queue_environment_file_refused",
    "gpupool_queue_environment_file_refused_since_timestamp_seconds",
    "gpupool_queue_plan_differs",
    "gpupool_queue_plan_since_timestamp_seconds",
    "gpupool_queue_leader",
    "gpupool_queue_dispatch_seconds",
    "gpupool_queue_callbacks",
    "gpupool_queue_alerts",
)
"""What each process says of itself; adding them up is no use, or is what they are for."""


def plans() -> dict[str, Plan]:
    return {**{name: shipped(name) for name in SHIPPED}, "everything": everything()}


def expressions(plan: Plan) -> Iterator[tuple[str, str]]:
    for group in rules.groups(plan):
        for rule in group["rules"]:
            yield rule.get("record") or rule["alert"], rule["expr"]
    for board, title, expression in queries(plan):
        yield f"{board}: {title}", expression


def parts(node: Any) -> Iterator[Any]:
    """The node of an expression and everything below it."""
    yield node
    for name in ("expr", "lhs", "rhs", "args", "vector_selector", "vs", "param"):
        below = getattr(node, name, None)
        for part in below if isinstance(below, list) else [below]:
            if part is not None and not isinstance(part, str | int | float):
                yield from parts(part)


def repeated(node: Any) -> str | None:
    """The repeated series that an aggregation adds up without having made it one for each GPU first."""
    while isinstance(node, promql_parser.ParenExpr):
        node = node.expr
    if isinstance(node, promql_parser.BinaryExpr):
        return repeated(node.lhs) or repeated(node.rhs)
    if isinstance(node, promql_parser.Call):
        return next(filter(None, map(repeated, node.args)), None)
    if isinstance(node, promql_parser.MatrixSelector):
        node = node.vector_selector
    if isinstance(node, promql_parser.SubqueryExpr):
        return repeated(node.expr)
    if isinstance(node, promql_parser.VectorSelector) and COUNTED_TWICE.match(node.name or ""):
        return str(node.name)
    return None


def added_up(node: Any) -> Iterator[str]:
    for part in parts(node):
        if isinstance(part, promql_parser.AggregateExpr) and str(part.op) in ("sum", "avg", "count"):
            found = repeated(part.expr)
            if found is not None:
                yield found


@pytest.mark.parametrize("name", [*SHIPPED, "everything"])
def test_every_series_is_emitted_and_none_is_counted_twice(name: str) -> None:
    plan = plans()[name]
    recorded = {rule["record"] for group in rules.groups(plan) for rule in group["rules"] if "record" in rule}
    read = {field.name for field in exporter.read_fields(plan)}
    for where, expression in expressions(plan):
        tree = promql_parser.parse(expression)
        for part in parts(tree):
            if isinstance(part, promql_parser.VectorSelector):
                assert part.name in recorded | read | QUEUE.keys() | OTHERS.keys(), f"{where}: {part.name}"
                known = labels_of(part.name)
                for matcher in part.matchers.matchers:
                    assert known is None or matcher.name in known, f"{where}: {matcher.name} of {part.name}"
        assert not list(added_up(tree)), f"{where}: {expression}"


def labels_of(metric: str) -> set[str] | None:
    """The labels that a series may have; None of recorded ones, whose expressions say it."""
    if metric.startswith("DCGM_"):
        return OF_TARGETS | OF_THE_EXPORTER
    return QUEUE.get(metric) or OTHERS.get(metric)


def test_the_queue_emits_what_is_asked_for() -> None:
    now = Snapshot(0.0, Holdings(), {}, {"vision": BudgetUsage(1, 1)}, {}, {})
    supply = supply_of(everything())
    registry = CollectorRegistry()
    Measures(registry)
    page = figures(now, supply, [], {"vision": 1})
    families = {family.name: family for source in (page, registry) for family in source.collect()}
    refused = PlanState("sha256:1", datetime.now(UTC))
    families |= {family.name: family for family in _plan_figures(refused, "prod").collect()}
    for name, labels in QUEUE.items():
        base = re.sub("_(bucket|count|sum|total)$", "", name)
        assert base in families, name
        for sample in families[base].samples:
            if sample.name == name:
                assert set(sample.labels) - {"scope"} == labels, name
    for family in families.values():
        for sample in family.samples:
            of_the_queue = bool(COUNTED_TWICE.match(sample.name)) and family.name not in OF_EACH_PROCESS
            assert (sample.labels.get("scope") == "queue") == of_the_queue, sample.name


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("sum(DCGM_FI_DEV_POWER_USAGE)", ["DCGM_FI_DEV_POWER_USAGE"]),
        ("sum by (node) (DCGM_FI_DEV_FB_USED / DCGM_FI_DEV_FB_FREE)", ["DCGM_FI_DEV_FB_USED"]),
        ("sum(rate(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION[5m]))", ["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"]),
        ("sum(gpupool_queue_jobs_queued)", ["gpupool_queue_jobs_queued"]),
        ("sum(max by (UUID) (DCGM_FI_DEV_POWER_USAGE))", []),
        ("sum(rate(gpupool_queue_decision_seconds_count[5m]))", []),
    ],
)
def test_bare_sums_are_found(expression: str, found: list[str]) -> None:
    assert list(added_up(promql_parser.parse(expression))) == found


def test_the_exporters_list_has_three_columns_and_known_names() -> None:
    for plan in plans().values():
        lines = exporter.csv(plan).splitlines()
        assert len(lines) == len(set(lines))
        for line in lines:
            name, kind, text = (column.strip() for column in line.split(","))
            assert re.fullmatch(r"DCGM_(FI|EXP)_[A-Z0-9_]+", name)
            assert kind in ("gauge", "counter")
            assert text


@pytest.mark.parametrize("name", [*SHIPPED, "everything"])
def test_every_panel_says_what_it_shows_and_fits(name: str) -> None:
    plan = plans()[name]
    uids = set()
    for board in boards.boards(plan):
        assert len(board["uid"]) <= 40
        uids.add(board["uid"])
        taken: set[tuple[int, int]] = set()
        assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
        for panel in board["panels"]:
            place = panel["gridPos"]
            cells = {
                (x, y)
                for x in range(place["x"], place["x"] + place["w"])
                for y in range(place["y"], place["y"] + place["h"])
            }
            assert place["x"] + place["w"] <= 24
            assert not cells & taken
            taken |= cells
            if panel["type"] != "row":
                assert panel["title"]
                assert panel["description"].endswith((".", "5 %"))
                assert panel["fieldConfig"]["defaults"]["unit"]
                assert panel["datasource"]["uid"] == "${datasource}"
    assert len(uids) == len(boards.boards(plan))


def test_rows_are_of_the_pools_and_of_what_their_gpus_can_show() -> None:
    def rows(plan: Plan) -> str:
        (gpus,) = (board for board in boards.boards(plan) if board["uid"].endswith("-gpus"))
        return "\n".join(panel["title"] for panel in gpus["panels"] if panel["type"] == "row")

    prod, homelab = rows(shipped("prod")), rows(shipped("homelab"))
    assert "Pool inference-h100: MIG instances" in prod
    assert "Pool notebooks: shared GPUs" in prod
    assert "Pool training-h100: whole GPUs" in prod
    assert "Pool training-h100: inside the GPU" in prod
    assert "inside the GPU" not in homelab, "GeForce cards can't be profiled"
