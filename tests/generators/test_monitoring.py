"""Objects for Prometheus and Grafana: where they go, and that nothing refuses them."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from gpupool.environment.plan.model import Plan
from gpupool.environment.spec.services import Dashboards
from gpupool.generators import generate
from gpupool.policy.gate import judge
from tests.generators.monitoring.environments import everything, shipped


def with_dashboards(**fields: str) -> Plan:
    plan = everything()
    monitoring = plan.monitoring.model_copy(update={"dashboards": Dashboards.model_validate(fields)})
    return replace(plan, monitoring=monitoring)


@pytest.mark.parametrize("kind", ["ConfigMap", "GrafanaDashboard"])
def test_dashboards_go_where_grafana_runs_and_policy_takes_them(kind: str) -> None:
    """The namespace is Grafana's, which the environment does not make."""
    plan = with_dashboards(kind=kind, namespace="monitoring", folder="GPUs")
    boards = [m for m in generate(plan) if m.kind == kind and m.name.startswith("gpupool-dashboard-")]
    assert {board.namespace for board in boards} == {"monitoring"}
    assert len({board.name for board in boards}) == 4
    report = judge(plan, date.today())
    assert [finding.message for finding in report.findings if finding.level == "deny"] == []


def test_in_the_cluster_assert_may_list_dashboards_where_they_are() -> None:
    roles = {m.namespace for m in generate(with_dashboards(namespace="monitoring")) if m.kind == "Role"}
    assert "monitoring" in roles


def test_monitors_and_rules_have_the_labels_that_a_prometheus_selects_by() -> None:
    found = [m for m in generate(everything()) if m.api_version == "monitoring.coreos.com/v1"]
    assert {m.kind for m in found} == {"ServiceMonitor", "PrometheusRule"}
    assert all(m.labels["release"] == "kube-prometheus-stack" for m in found)


def test_the_local_control_plane_gets_nothing_that_needs_what_is_not_there() -> None:
    kinds = {m.api_version for m in generate(shipped("local"))}
    assert not {"monitoring.coreos.com/v1", "grafana.integreatly.org/v1beta1"} & kinds
