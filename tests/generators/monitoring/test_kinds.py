"""Each kind of GPU, behind old and new exporters side by side: each thing has one value, the same from each.

Shared T4, whole and partitioned H100, and a card without profiling fields. What is expected is worked out
from the GPUs, not from the pages.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.local.monitoring.page import LATEST, PLAIN, VIRTUAL
from tests.generators.monitoring.environments import kinds
from tests.generators.monitoring.queue_page import queue_page
from tests.generators.monitoring.scraped import Node, Scraped, cards
from tests.generators.monitoring.test_panels import without_data

PLAN = kinds()
WRITERS = {"old": VIRTUAL, "new": LATEST, "plain": PLAIN}
NODES = [
    Node(name, pool, WRITERS[name.rpartition("-")[2]]) for pool in PLAN.pools for name in pool.node_names
]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    folder: Path = tmp_path_factory.mktemp("kinds")
    server = Scraped(folder, PLAN, {"gpu-scheduler": queue_page(PLAN)}, NODES)
    server.wait(f"count(gpupool:node_engine_active:ratio) >= {len(NODES)}")
    server.wait("count_over_time(gpupool:gpu_energy:joules_total[1m]) > 3")
    yield server
    server.stop()


def value(prometheus: Scraped, expression: str) -> float:
    (row,) = prometheus.query(expression)
    return float(row["value"][1])


def test_every_panel_shows_each_pool(prometheus: Scraped) -> None:
    assert not list(without_data(prometheus, PLAN))


def test_there_is_one_series_for_each_gpu_and_each_instance(prometheus: Scraped) -> None:
    every = {node.name: cards(node.pool, node=node.name) for node in NODES}
    for name, there in every.items():
        for record in ("gpu_power:watts", "gpu_temperature:celsius", "gpu_energy:joules_total"):
            assert value(prometheus, f'count(gpupool:{record}{{node="{name}"}})') == len(there)
        parts = sum(len(card.instances) or 1 for card in there)
        for record in ("gpu_engine_active:ratio", "gpu_memory_used:bytes", "gpu_memory:bytes"):
            assert value(prometheus, f'count(gpupool:{record}{{node="{name}"}})') == parts
        assert value(prometheus, f'count(gpupool:node_engine_active:ratio{{node="{name}"}})') == 1


def test_power_is_that_of_the_gpus_however_often_it_is_written(prometheus: Scraped) -> None:
    expected = 0.0
    for node in NODES:
        for card in cards(node.pool, node=node.name):
            pods = [pod.use for part in card.instances for pod in part.pods] or [p.use for p in card.pods]
            expected += 60 + 400 * sum(pods) / (len(card.instances) or 1)
    power = value(prometheus, "sum(gpupool:gpu_power:watts)")
    assert power == pytest.approx(expected, rel=0.2)  # which swings by a tenth
    written = value(prometheus, "sum(DCGM_FI_DEV_POWER_USAGE)")
    assert written > 1.4 * power, "so that a bare sum would be noticed"


@pytest.mark.parametrize("pool", [pool.name for pool in PLAN.pools])
@pytest.mark.parametrize("record", ["node_engine_active:ratio", "node_gpus:count"])
def test_nodes_that_do_the_same_show_the_same_behind_any_exporter(
    prometheus: Scraped, pool: str, record: str
) -> None:
    of_pool = f'gpupool:{record}{{pool="{pool}"}}'
    most, least = value(prometheus, f"max({of_pool})"), value(prometheus, f"min({of_pool})")
    assert most == pytest.approx(least, rel=0.03)
    assert least > 0


def test_memory_of_a_shared_gpu_is_counted_once(prometheus: Scraped) -> None:
    for name in ("shared-old", "shared-new", "shared-plain"):
        used = value(prometheus, f'sum(gpupool:gpu_memory_used:bytes{{node="{name}"}})') / 2**20
        assert used == pytest.approx(16 * 1024 * (0.02 + 0.8 * 0.4 + 0.02), rel=0.1)


def test_who_shares_a_gpu_is_known_where_the_exporter_names_each_pod(prometheus: Scraped) -> None:
    pods = {
        name: value(prometheus, f'max(gpupool:gpu_pods:count{{node="{name}"}})')
        for name in ("shared-old", "shared-new", "shared-plain")
    }
    assert pods == {"shared-old": 2, "shared-new": 2, "shared-plain": 1}


def test_the_shares_of_a_pool_weigh_its_gpus(prometheus: Scraped) -> None:
    """All instances are in use for 40 %; of whole cards every second, for half of that."""
    assert value(prometheus, 'gpupool:pool_engine_active:ratio{pool="mig"}') == pytest.approx(0.4, rel=0.25)
    assert value(prometheus, 'gpupool:pool_engine_active:ratio{pool="desk"}') == pytest.approx(0.1, rel=0.25)
