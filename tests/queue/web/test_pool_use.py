"""The overview shows how much pools' GPUs were used within the last day, and what runs now costs an hour."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from gpupool.generators.monitoring.rules import POOL_USE
from gpupool.local.ports import free_port
from gpupool.queue.store import launches
from tests.prometheus import Prometheus
from tests.queue.api.served import Served
from tests.queue.api.test_operation import HELD, running
from tests.queue.web.test_overview import with_own_pods

STEP_S = 1800


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Prometheus with two days: notebooks were at 50 % until three hours ago, at 90 % since;
    batch-a10g was there for one hour alone, twenty hours ago."""
    now = int(time.time())
    rows = [f"# TYPE {POOL_USE} gauge"]
    rows += [
        f'{POOL_USE}{{pool="notebooks"}} {0.5 if at < now - 3 * 3600 else 0.9} {at}'
        for at in range(now - 2 * 86400, now, 300)
    ]
    rows += [
        f'{POOL_USE}{{pool="batch-a10g"}} 0.25 {at}' for at in range(now - 20 * 3600, now - 19 * 3600, 300)
    ]
    server = Prometheus(tmp_path_factory.mktemp("prometheus"), before="\n".join([*rows, "# EOF\n"]))
    yield server.url
    server.stop()


def section(page: str, name: str) -> str:
    (text,) = re.findall(rf'<section aria-labelledby="{name}-title".*?</section>', page, re.DOTALL)
    return str(text)


def test_each_pool_has_a_column_for_each_half_hour_of_which_there_is_a_figure(pages, known: str) -> None:
    async def test(served: Served) -> None:
        use = section((await served.client.get("/")).text, "use")
        charts = {
            label.split(" within")[0].removeprefix("GPU use of "): (label, text.count("<rect"))
            for label, text in re.findall(
                r'<svg class="chart" role="img" aria-label="([^"]*)"(.*?)</svg>', use, re.DOTALL
            )
        }
        assert set(charts) == {"notebooks", "batch-a10g"}
        label, columns = charts["notebooks"]
        assert label.endswith(": 55% on average, 90% at most")
        assert columns == 48
        label, columns = charts["batch-a10g"]
        assert label.endswith(": 25% on average, 25% at most")
        assert columns in (2, 3)
        assert "55% on average, 90% in the last half hour" in use
        assert "25% on average, no GPU at the moment" in use

    pages(test, dev=True, queue={"idle_prometheus": known, "idle_below": 0.05})


def test_a_tenant_sees_the_use_of_its_own_pools(pages, known: str) -> None:
    async def test(served: Served) -> None:
        use = section((await served.client.get("/?tenant=serving")).text, "use")
        assert "GPU use of batch-a10g" in use
        assert "notebooks" not in use

    pages(test, dev=True, queue={"idle_prometheus": known, "idle_below": 0.05})


def test_a_prometheus_that_does_not_answer_delays_one_page_and_is_named_to_operators(pages) -> None:
    url = f"http://127.0.0.1:{free_port()}"

    async def test(served: Served) -> None:
        use = section((await served.client.get("/")).text, "use")
        assert f"Not available: {url} can&#39;t be asked" in use

    pages(test, dev=True, queue={"idle_prometheus": url, "idle_below": 0.05})


def test_without_a_prometheus_there_is_nothing_to_see(pages) -> None:
    async def test(served: Served) -> None:
        assert "GPU use" not in (await served.client.get("/")).text

    pages(test, dev=True)


def test_what_runs_now_is_priced_by_pool_and_tenant(pages) -> None:
    async def test(served: Served) -> None:
        before = section((await served.client.get("/")).text, "tenants")
        assert "Current cost: <strong>$0</strong> per hour.</p>" in before
        await running(served, **HELD)
        own = launches.ForeignPods("batch-a10g", "nvidia.com/gpu", 0, "serving", "on-demand", 1, 250_000)
        page = section(await with_own_pods(served, own), "tenants")
        amounts = re.search(r"cost: <strong>\$([\d.]+)</strong> per hour: ([^<]*)</p>", page)
        assert amounts is not None, page
        places = dict(reversed(part.split(" in ")) for part in amounts[2].removesuffix(".").split(", "))
        assert {place.removesuffix(" on spot") for place in places} == {"notebooks", "batch-a10g"}
        total = sum(float(amount.removeprefix("$")) for amount in places.values())
        assert float(amounts[1]) == pytest.approx(total, abs=0.02)
        hourly = dict(
            re.findall(
                r"<bdi>(\w+)</bdi></th>.*?data-label=\"Cost per hour\" class=\"number\">\$([\d.]+)",
                page,
                re.DOTALL,
            )
        )
        assert sum(map(float, hourly.values())) == pytest.approx(float(amounts[1]), abs=0.02)

    pages(test, dev=True)
