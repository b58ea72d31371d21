"""What pages say of nodes that may not be there, pods that are no job, what was asked for: no browser."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from gpupool.queue.domain.state import Snapshot
from gpupool.queue.domain.supply import supply_of
from gpupool.queue.records import Principal
from gpupool.queue.store import dispatch, jobs, launches
from gpupool.queue.web.pool_drawing import drawn_pool
from gpupool.queue.web.visitor import Visitor
from tests.queue.api.served import Served, local_plan
from tests.queue.api.test_operation import HELD, running

ALL = Visitor(Principal("dev", frozenset({"*"}), frozenset({"admin"}), "dev"), False, (), None)


async def with_own_pods(served: Served, *pods: launches.ForeignPods) -> str:
    """The overview where tenants have these pods of their own."""
    epoch = await dispatch.lead(served.db, launches.ROLE, "a test", 60)
    assert epoch is not None
    await launches.replace_foreign(served.db, epoch, pods)
    return (await served.client.get("/")).text


def pool_of(page: str, name: str) -> str:
    (found,) = re.findall(rf"<h3>{name}</h3>.*?</article>", page, re.DOTALL)
    return str(found)


def test_a_tenants_own_pods_are_no_job(pages) -> None:
    async def test(served: Served) -> None:
        mig = [
            launches.ForeignPods(
                "inference-mig", f"nvidia.com/mig-{profile}", 0, "serving", "on-demand", 1, part
            )
            for profile, part in (("2g.20gb", 250_000), ("3g.40gb", 500_000))
        ]
        gpu = launches.ForeignPods("notebooks", "nvidia.com/gpu", 0, "vision", "on-demand", 2, 250_000)
        page = await with_own_pods(served, gpu, *mig)
        notebooks = pool_of(page, "notebooks")
        assert "<bdi>vision</bdi>'s own pods, no job, 2 slices" in notebooks
        assert 'aria-label="GPU 0 of node 0: held by a (pods, no job)"' in notebooks
        assert 'class="key c0 pods">a</span>' in notebooks
        assert "own pods, no job, 1 of 2g.20gb, 1 of 3g.40gb" in pool_of(page, "inference-mig")
        assert "No running jobs." in page
        vision = page.partition('scope="row"><span class="key c0"')[2]
        assert '<td data-label="Running" class="number">0</td>' in vision.partition("</tr>")[0]
        assert '<td data-label="GPUs in use" class="number">0.25</td>' in vision.partition("</tr>")[0]

    pages(test, dev=True)


def test_nodes_that_karpenter_may_start_are_drawn_and_called_so(pages) -> None:
    async def test(served: Served) -> None:
        own = launches.ForeignPods("batch-a10g", "nvidia.com/gpu", 0, "vision", "on-demand", 5, 1_250_000)
        page = await with_own_pods(served, own)
        assert "Karpenter starts one when a pod needs it" in page
        notebooks = pool_of(page, "notebooks")
        assert notebooks.count("on-demand, started when needed") == notebooks.count('"slices absent"') == 3
        assert 'aria-label="GPU 0 of node 2: started when needed"' in notebooks
        batch = pool_of(page, "batch-a10g")
        assert "a node has 1 GPU (g5.xlarge) or 4 GPUs (g5.12xlarge)" in batch
        assert "up to 43 of 48 slices free" in batch
        labels = re.findall(r'<svg class="(slices[^"]*)"[^>]*aria-label="([^"]*)"', batch)[:5]
        assert labels == [
            ("slices", "GPU 0 of node 0: held by a (pods, no job)"),
            ("slices", "GPU 1 of node 0: held by a (pods, no job)"),
            ("slices absent", "GPU 2 of node 0: only on a larger machine"),
            ("slices absent", "GPU 3 of node 0: only on a larger machine"),
            ("slices absent", "GPU 0 of node 1: started when needed"),
        ]

    pages(test, dev=True)


@pytest.mark.parametrize(("changed", "there"), [({"warm": 2}, 2), ({"capacities": ()}, 3)])
def test_nodes_that_are_kept_ready_or_exist_are_there(changed: dict[str, object], there: int) -> None:
    plan = local_plan()
    pool = plan.pool("notebooks")
    supply = supply_of(plan).pools["notebooks"]
    drawn = drawn_pool(replace(pool, **changed), supply, Snapshot(0, (), {}), {}, ALL)
    assert [node["started"] for node in drawn["nodes"]] == [number < there for number in range(3)]


def test_jobs_that_the_overview_leaves_out_are_a_link_away(pages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "PAGE_BYTES", 1)

    async def test(served: Served) -> None:
        first = await running(served, **HELD)
        assert "All running jobs" not in (await served.client.get("/")).text
        second = await running(served, **HELD)
        page = (await served.client.get("/")).text
        assert f"/jobs/{second['id']}" in page
        assert f"/jobs/{first['id']}" not in page.partition('id="running"')[2]
        assert '<a href="/jobs?state=running">All running jobs</a>' in page
        assert "No scheduled jobs." not in page

    pages(test, dev=True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"gpu_pool_requested": "auto", "gpu_type": "t4"}, "t4"),
        ({"gpu_pool_requested": "notebooks", "gpu_type": "t4"}, "notebooks, t4"),
        ({"gpu_pool_requested": "t4"}, "t4"),
        ({"gpu_pool_requested": "auto"}, "auto"),
    ],
)
def test_a_jobs_page_says_what_was_asked_for(pages, given: dict[str, str], said: str) -> None:
    async def test(served: Served) -> None:
        id = (await served.submit(**given))["id"]
        assert f"requested: <bdi>{said}</bdi>" in (await served.client.get(f"/jobs/{id}")).text

    pages(test, dev=True)
