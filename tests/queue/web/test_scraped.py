"""A real Prometheus scrapes a running queue: every rule and panel about the queue has something to say.

What has to fire, or does not happen here, is left to the tests of rules (tests/generators/monitoring).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.generators.monitoring import rules
from tests.generators.monitoring.environments import queries
from tests.prometheus import Prometheus
from tests.queue.api.served import local_plan
from tests.queue.web.conftest import Site

OF_THE_QUEUE = re.compile(r"gpupool[:_]queue_")
PLAN = local_plan()


def job(site: Site, key: str | None = None) -> dict[str, Any]:
    authorization = {"authorization": {"credentials": key}} if key else {}
    targets = [{"targets": [site.address.removeprefix("http://")]}]
    return {"job_name": "gpu-scheduler", "static_configs": targets, **authorization}


@pytest.fixture(scope="module")
def scraped(dev_site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """After one job has succeeded, one has failed, while one runs and one waits for its tenant's limit."""
    runs = {"container_command": ["sh", "-c", "sleep 3000"]}
    ended = [
        dev_site.submit(container_command=["true"]),
        dev_site.submit(container_command=["false"], retries=0),
    ]
    dev_site.wait(ended[0], "succeeded")
    dev_site.wait(ended[1], "failed")
    running = dev_site.submit(gpu_pool_requested="training", gpu_count=4, **runs)
    dev_site.wait(running, "running")
    dev_site.submit(
        gpu_pool_requested="training", gpu_count=2, preemptible=False, **runs
    )  # so it can't borrow
    groups = [{**group, "interval": "1s"} for group in rules.groups(PLAN)]
    server = Prometheus(tmp_path_factory.mktemp("prometheus"), [job(dev_site)], groups)
    server.wait("count_over_time(gpupool:queue_jobs:count[1m]) > 3")
    yield server
    server.stop()


def recorded() -> list[str]:
    every = [rule for group in rules.groups(PLAN) for rule in group["rules"] if "record" in rule]
    return [rule["record"] for rule in every if OF_THE_QUEUE.search(rule["expr"])]


def test_each_rule_records_something(scraped: Prometheus) -> None:
    for record in recorded():
        if "budget" not in record or any(tenant.budget for tenant in PLAN.tenants):
            assert scraped.query(record), record


def test_each_panel_shows_something(scraped: Prometheus) -> None:
    for _, title, expression in queries(PLAN):
        if OF_THE_QUEUE.search(expression):
            assert scraped.query(expression), title


def test_the_figures_are_those_of_the_jobs(scraped: Prometheus) -> None:
    def value(expression: str) -> float:
        (row,) = scraped.query(expression)
        return float(row["value"][1])

    assert value('sum(gpupool:queue_gpus:count{pool="training", by="job"})') == 4
    assert value('sum(max by (pool, reason) (gpupool_queue_jobs_waiting{pool="training"}))') == 1
    assert value('gpupool:queue_pool_oldest_wait:seconds{pool="training", reason="tenant_limit"}') > 0
    assert value('sum(gpupool_queue_attempts_total{pool="notebooks", outcome="failed"})') == 1
    assert value("count(gpupool_build_info)") == 1


def test_who_has_no_key_learns_nothing_and_is_seen_to(site: Site, tmp_path: Path) -> None:
    """Production: the target is down, and the queue counts as stopped, until Prometheus shows a key."""
    key = site.key("*", scopes=("metrics:read",))
    without, having = job(site), job(site, key) | {"job_name": "with-a-key"}
    server = Prometheus(tmp_path, [without, having])
    try:
        server.wait('up{job="with-a-key"} == 1')
        server.wait('up{job="gpu-scheduler"} == 0')
        assert not server.query('{__name__=~"gpupool_.+", job="gpu-scheduler"}')
        assert server.query('gpupool_queue_jobs_queued{job="with-a-key"}')
    finally:
        server.stop()
