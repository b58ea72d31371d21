"""Panels of the shipped environments, asked of a real Prometheus that scrapes replayed exporter pages and the
page that the queue's own code writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.environment.plan.model import Plan
from gpupool.generators.monitoring import exporter
from gpupool.local.monitoring.page import LATEST, PLAIN, VIRTUAL, Writer, page
from tests.generators.monitoring.environments import SHIPPED, everything, queries, shipped
from tests.generators.monitoring.queue_page import queue_page
from tests.generators.monitoring.scraped import Scraped, cards

OF_SOME = ("Idle GPUs with a pod", "GPUs on spot")
"""Panels that are not about every pool."""


def without_data(prometheus: Scraped, plan: Plan) -> Iterator[tuple[str, str, str]]:
    """Panels that show nothing, or only some pools: (dashboard, title, expression)."""
    for board, title, expression in queries(plan):
        if "ALERTS" in expression:  # nothing has to fire
            continue
        rows = prometheus.query(expression)
        pools = {row["metric"].get("pool") for row in rows} - {None}
        whole = len(pools) in (0, 1, len(plan.pools)) or title in OF_SOME
        if not rows or not whole:
            yield board, title, expression


@pytest.mark.parametrize("name", [*SHIPPED, "everything"])
def test_every_panel_has_data_for_each_pool_that_it_is_about(name: str, tmp_path: Path) -> None:
    plan = everything() if name == "everything" else shipped(name)
    prometheus = Scraped(tmp_path, plan, {"gpu-scheduler": queue_page(plan)})
    try:
        prometheus.wait(f"count(gpupool:node_engine_active:ratio) >= {len(plan.pools)}")
        prometheus.wait("count_over_time(gpupool:gpu_energy:joules_total[1m]) > 3")
        assert not list(without_data(prometheus, plan))
        use = prometheus.query("gpupool:node_engine_active:ratio")
        assert {row["metric"]["pool"] for row in use} == {pool.name for pool in plan.pools}
        assert all(0 < float(row["value"][1]) <= 1 for row in use)
    finally:
        prometheus.stop()


def test_pages_repeat_as_the_exporter_does() -> None:
    """A GPU's own figure for each of its instances; a shared GPU's for each pod, beside its own."""
    prod = shipped("prod")
    fields = list(exporter.read_fields(prod))

    def rows(pool: str, metric: str, writer: Writer = LATEST) -> list[str]:
        text = page(cards(prod.pool(pool)), fields, 0, writer)
        return [line for line in text.splitlines() if line.startswith(f"{metric}{{")]

    assert len(rows("inference-h100", "DCGM_FI_DEV_POWER_USAGE")) == 6
    assert not rows("inference-h100", "DCGM_FI_DEV_GPU_UTIL")
    shared = rows("notebooks", "DCGM_FI_DEV_FB_USED")
    assert len(shared) == 4
    assert sum('pod="' in row for row in shared) == 3
    assert len(rows("notebooks", "DCGM_FI_DEV_FB_USED", PLAIN)) == 2
    assert len(rows("notebooks", "DCGM_FI_DEV_FB_USED", VIRTUAL)) == 3
