"""Rules and dashboards follow what an environment has: what never comes fires no alert."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.resolve import read_plan, resolve
from gpupool.environment.spec.load import check_shape
from gpupool.environment.spec.yaml_source import parse_source
from gpupool.generators import generate
from gpupool.generators.monitoring import boards, rules
from gpupool.generators.monitoring.objects import plain_files
from tests.generators.monitoring.environments import ROOT, shipped
from tests.prometheus import promtool

MONITORING = ROOT / "gpupool" / "generators" / "monitoring"
FIRST = ("dev", "staging", "prod")
"""What people look at first: all of the product."""


def changed(**changes: Any) -> Plan:
    """prod with other sections; None takes a section away."""
    data = yaml.safe_load((ROOT / "environments" / "prod.yaml").read_text())
    del data["promotion"]
    data |= changes
    text = yaml.safe_dump({name: value for name, value in data.items() if value is not None})
    return resolve(check_shape(parse_source("prod.yaml", text.encode())))


def alerts(plan: Plan) -> set[str]:
    return {rule["alert"] for group in rules.groups(plan) for rule in group["rules"] if "alert" in rule}


def queries(plan: Plan) -> str:
    return "\n".join(
        target["expr"]
        for board in boards.boards(plan)
        for panel in board["panels"]
        for target in panel.get("targets", ())
    )


def test_every_group_and_board_says_what_it_needs() -> None:
    data = yaml.safe_load((MONITORING / "rules.yaml").read_text())
    needs = [row["needs"] for row in (*data["recording"], *data["alerts"])]
    drawn = yaml.safe_load((MONITORING / "boards.yaml").read_text())["boards"]
    panels = [
        panel for row in drawn[0]["rows"] for panel in row["panels"] if "ALERTS" not in str(panel["show"])
    ]
    needs += [row["needs"] for row in (*drawn[1:], *panels)]  # the first is of all that there is
    assert set(needs) <= set(rules.CONDITIONS)


@pytest.mark.parametrize("name", FIRST)
def test_the_shipped_environments_have_the_whole_product(name: str) -> None:
    plan = shipped(name)
    assert {"GpupoolQueueStopped", "GpupoolExporterDown"} <= alerts(plan)
    bundle = generate(plan)
    assert "gpu-scheduler" in {release.name for release in bundle.releases}
    dashboards = [m.name for m in bundle if m.name.startswith("gpupool-dashboard-")]
    assert len(dashboards) == 4


IMAGE = "registry.example.com/gpupool:1.2.3"
KEYLESS = {
    "chart": {
        "repository": "oci://registry.example.com/charts",
        "image": IMAGE,
    },
    "database": {"secretRef": {"name": "queue-database", "key": "url"}},
}


@pytest.mark.parametrize(
    ("queue", "operator", "there"),
    [
        (None, True, False),
        ({"enabled": False}, True, False),
        (KEYLESS, True, False),
        (KEYLESS, False, True),
        ({**KEYLESS, "metricsKeySecretRef": {"name": "queue-metrics", "key": "key"}}, True, True),
    ],
    ids=["no queue", "switched off", "no key for the operator", "a Prometheus of one's own", "with its key"],
)
def test_a_queue_that_nothing_reads_has_no_rules(queue: Any, operator: bool, there: bool) -> None:
    plan = changed(queue=queue, monitoring={"prometheusOperator": operator, "grafana": True})
    of_queue = {
        name
        for name in alerts(plan)
        if not name.startswith(("GpupoolGpu", "GpupoolExporter", "GpupoolNoPod"))
    }
    assert bool(of_queue) == there
    assert ("gpupool:queue" in queries(plan)) == there
    assert ("gpupool_queue" in str(rules.groups(plan))) == there


def test_without_an_exporter_nothing_asks_for_its_series() -> None:
    off = changed(gpuOperator={"driver": {"enabled": False}, "values": {"dcgmExporter": {"enabled": False}}})
    gke = read_plan(str(ROOT / "examples" / "clouds" / "gke.yaml"))
    for plan in (off, gke):
        assert "DCGM" not in str(rules.groups(plan))
        assert "gpupool:gpu" not in queries(plan)
        assert "gpupool:node" not in queries(plan)
    assert {"GpupoolQueueStopped"} <= alerts(off)
    assert rules.groups(gke) == []


@pytest.mark.parametrize(("pushgateway", "there"), [(None, False), ("http://push:9091", True)])
def test_assert_is_watched_where_its_figures_arrive(pushgateway: str | None, there: bool) -> None:
    assertion = {"image": IMAGE, "pushgateway": pushgateway}
    assertion = {name: value for name, value in assertion.items() if value}
    plan = changed(monitoring={"prometheusOperator": True, "assertion": assertion})
    assert ("GpupoolAssertLate" in alerts(plan)) == there


@pytest.mark.parametrize("queue", [None, KEYLESS], ids=["no queue", "no key"])
def test_nothing_fires_in_a_cluster_without_the_queue(queue: Any, tmp_path: Path) -> None:
    plan = changed(queue=queue, monitoring={"prometheusOperator": True})
    (tmp_path / "rules.yaml").write_text(plain_files(plan)["rules.yaml"])
    firing = {"expr": 'ALERTS{alertname=~"Gpupool.+"}', "eval_time": "30m", "exp_samples": []}
    case = {"interval": "1m", "input_series": [], "promql_expr_test": [firing]}
    tests = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [case]}
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(tests))
    promtool("test", "rules", str(tmp_path / "tests.yaml"))
