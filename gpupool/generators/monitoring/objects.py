"""What Prometheus and Grafana need: the DCGM exporter's list of fields, what is scraped, rules, dashboards.

The exporter runs whether anything scrapes it or not, so its list is pinned everywhere; objects of the
Prometheus operator and dashboards are made where the file asks for them. Fields, rules and panels are in
`gpupool.generators.monitoring`. The local control plane runs no exporter and scrapes nothing: there
dashboards alone are made, for who imports them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gpupool.environment.plan.model import POOL_LABEL, SYSTEM_NAMESPACE, Plan
from gpupool.generators.emit import yaml_text
from gpupool.generators.manifest import Manifest
from gpupool.generators.metadata import content_name, manifest_of
from gpupool.generators.monitoring import boards, exporter, rules

_NAME = "gpupool"
_EXPORTER = {"app": rules.EXPORTER_JOB}
_EXTERNAL = "policies.gpupool.dev/external"
"""Annotation that names what others make (gpupool.policy.rules.bundle): the namespace that Grafana runs
in."""
_POOL = POOL_LABEL.replace(".", "_").replace("/", "_")
"""The pool's label, as Prometheus spells it."""
_SIDECAR = "grafana_dashboard"
"""Label by which the sidecar of Grafana's chart finds dashboards (its default)."""


def generate(plan: Plan) -> Iterator[Manifest]:
    if plan.uses_gpu_operator:
        yield from _exporter(plan)
    if plan.monitoring.prometheus_operator:
        if exporter.runs(plan):
            yield _monitor(plan)
        if groups := rules.groups(plan):
            yield _rules(plan, groups)
    if plan.monitoring.grafana:
        yield from _dashboards(plan)


def fields_map_name(plan: Plan) -> str:
    """Name of the ConfigMap with the exporter's fields, made of its content: the exporter reads it once."""
    return content_name(exporter.FIELDS_MAP, {exporter.FILE: exporter.csv(plan)})


def _exporter(plan: Plan) -> Iterator[Manifest]:
    platform, ours = plan.cluster.platform, plan.gpu_operator.install
    if platform != "local" and (ours or plan.monitoring.prometheus_operator):
        data = {exporter.FILE: exporter.csv(plan)}
        namespace = plan.gpu_operator.namespace
        yield manifest_of(plan, "ConfigMap", fields_map_name(plan), namespace, data=data)


def _monitor(plan: Plan) -> Manifest:
    """In the place of the operator's own, which knows no node and so no pool (gpu-operator v26.7.0)."""
    # The definition's own default is written out: an item that the server fills in would look changed.
    node = {
        "action": "replace",
        "sourceLabels": ["__meta_kubernetes_pod_node_name"],
        "targetLabel": "node",
    }
    pool = {**node, "sourceLabels": [f"__meta_kubernetes_node_label_{_POOL}"], "targetLabel": "pool"}
    endpoint = {
        "port": "gpu-metrics",
        "interval": plan.monitoring.dcgm_interval,
        # The pods that use a GPU are then exported_pod, and `pod` is the exporter's everywhere.
        "honorLabels": False,
        "relabelings": [node, pool],
    }
    spec: dict[str, Any] = {
        "jobLabel": "app",
        "attachMetadata": {"node": True},
        "namespaceSelector": {"matchNames": [plan.gpu_operator.namespace]},
        "selector": {"matchLabels": _EXPORTER},
        "endpoints": [endpoint],
    }
    namespace, labels = plan.gpu_operator.namespace, plan.monitoring.labels
    return manifest_of(plan, "ServiceMonitor", "gpupool-dcgm-exporter", namespace, labels=labels, spec=spec)


def _rules(plan: Plan, groups: list[rules.Group]) -> Manifest:
    spec = {"groups": groups}
    labels = plan.monitoring.labels
    return manifest_of(plan, "PrometheusRule", _NAME, SYSTEM_NAMESPACE, labels=labels, spec=spec)


_HEADER = """\
# Rules of gpupool for a Prometheus without its operator: name this file in `rule_files`.
# They expect the labels node and pool on the series of the exporter: in its scrape configuration, with
# kubernetes_sd_configs of role pod and attach_metadata {node: true}:
#   job_name: %s
#   honor_labels: false
#   relabel_configs:
#   - {source_labels: [__meta_kubernetes_pod_label_app], regex: %s, action: keep}
#   - {source_labels: [__meta_kubernetes_pod_node_name], target_label: node}
#   - {source_labels: [__meta_kubernetes_node_label_%s], target_label: pool}
"""


def plain_files(plan: Plan) -> dict[str, str]:
    """Name -> content of what a Prometheus and a Grafana without operators read: rules and dashboards."""
    header = _HEADER % (rules.EXPORTER_JOB, rules.EXPORTER_JOB, _POOL)
    texts = {"rules.yaml": header + yaml_text({"groups": rules.groups(plan)})}
    return texts | {f"{_name(board)}.json": _json(board) for board in boards.boards(plan)}


def _name(board: boards.Board) -> str:
    return f"gpupool-dashboard-{board['uid'].rpartition('-')[2]}"


def _json(board: boards.Board) -> str:
    return json.dumps(board, indent=1, ensure_ascii=False) + "\n"


def _dashboards(plan: Plan) -> Iterator[Manifest]:
    settings = plan.monitoring.dashboards
    theirs = settings.namespace not in (SYSTEM_NAMESPACE, plan.gpu_operator.namespace)
    external = {_EXTERNAL: f"Namespace {settings.namespace}"} if theirs else {}
    for board in boards.boards(plan):
        name, text = _name(board), _json(board)
        if settings.kind == "ConfigMap":
            yield manifest_of(
                plan,
                "ConfigMap",
                name,
                settings.namespace,
                labels={_SIDECAR: "1"},
                annotations={"grafana_folder": settings.folder, **external},
                data={f"{name}.json": text},
            )
        else:
            spec = {
                "instanceSelector": {"matchLabels": {"dashboards": "grafana"}},
                "allowCrossNamespaceImport": True,
                "folder": settings.folder,
                "json": text,
            }
            yield manifest_of(
                plan, "GrafanaDashboard", name, settings.namespace, annotations=external, spec=spec
            )
