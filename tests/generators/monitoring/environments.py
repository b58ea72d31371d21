"""Environments whose rules and dashboards are looked at: the shipped ones, and one that has everything."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path

import yaml

from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.resolve import read_plan
from gpupool.generators.monitoring import boards
from tests.environment_files import environment_data, plan_of

KINDS = """\
pools:
  - name: shared
    gpu: t4
    sharing: {mode: time-slicing, replicas: 4}
    nodes: {names: [shared-old, shared-new, shared-plain]}
  - name: whole
    gpu: h100-80gb
    sharing: {mode: exclusive}
    nodes: {names: [whole-old, whole-new]}
  - name: mig
    gpu: h100-80gb
    sharing: {mode: mig, layout: {3g.40gb: 1, 2g.20gb: 2}}
    nodes: {names: [mig-old, mig-new]}
  - name: desk
    gpu: rtx-4090
    sharing: {mode: exclusive}
    nodes: {names: [desk-old, desk-new]}
tenants:
  - {name: vision, namespace: vision, pools: {shared: {slices: 8}, whole: {gpus: 2}}}
monitoring: {prometheusOperator: true, grafana: true}
"""
"""A pool of each kind of GPU, side by side."""
ROOT = Path(__file__).parents[3]
SHIPPED = ("local", "homelab", "dev", "staging", "prod")


def shipped(name: str) -> Plan:
    return read_plan(str(ROOT / "environments" / f"{name}.yaml"))


def kinds() -> Plan:
    return plan_of(environment_data("static", name="kinds", **yaml.safe_load(KINDS)))


def everything(pools: Collection[str] = ()) -> Plan:
    """prod, with what makes every rule and panel appear; of its pools all, or these."""
    data = yaml.safe_load((ROOT / "environments" / "prod.yaml").read_text())
    del data["promotion"]
    data["monitoring"] = {
        "prometheusOperator": True,
        "grafana": True,
        "gpuMetrics": "full",
        "labels": {"release": "kube-prometheus-stack"},
        "alerts": {"runbooks": "https://wiki.example.com/alerts"},
        "assertion": {
            "image": "registry.example.com/gpupool:1.2.3",
            "schedule": "*/10 * * * *",
            "pushgateway": "http://pushgateway.monitoring:9091",
        },
    }
    data["queue"] |= {
        "idle": {"prometheus": "http://prometheus.monitoring:9090", "below": 0.05, "for": "30m"}
    }
    data["tenants"][0]["projects"][0] = {"name": "detector", "budget": {"usd": 5000, "alertAt": [0.9]}}
    if pools:
        data["pools"] = [pool for pool in data["pools"] if pool["name"] in pools]
        for pool in data["pools"]:
            pool.pop("fallbackTo", None)
        for tenant in data["tenants"]:
            tenant["pools"] = {name: grant for name, grant in tenant["pools"].items() if name in pools}
    return plan_of(data)


def queries(plan: Plan) -> Iterator[tuple[str, str, str]]:
    """(dashboard's uid, panel's title, expression) of every panel, with variables at "All"; a day and a rate
    are looked at in steps that fit a Prometheus that has run for seconds."""
    for board in boards.boards(plan):
        for panel in board["panels"]:
            for target in panel.get("targets", ()):
                expression = re.sub(r"\$(tenant|node)", ".*", target["expr"])
                expression = expression.replace("$__rate_interval", "1m").replace("[1d:1m]", "[1d:1s]")
                yield board["uid"], panel["title"], expression
