"""A job on reserved nodes: what the store keeps of it, and that it is charged nothing."""

from __future__ import annotations

from pathlib import Path

from gpupool.queue.domain.offers import GpuRequest, offers
from gpupool.queue.domain.supply import supply_of
from gpupool.queue.plan_source import PlanSource
from gpupool.queue.store import jobs
from gpupool.queue.store.database import Database
from tests.queue.roles.running import LOCAL, Queue, new


def test_a_job_on_reserved_nodes_is_charged_nothing(database, tmp_path: Path) -> None:
    nodes = "nodes: {instanceTypes: [g4dn.xlarge], max: 3,"
    text = LOCAL.read_text(encoding="utf-8")
    assert nodes in text
    file = tmp_path / "local.yaml"
    file.write_text(text.replace(nodes, f"{nodes} reserved: [{{id: cr-1, count: 1}}],"), encoding="utf-8")
    source = PlanSource(file)

    async def scenario(db: Database) -> None:
        queue = Queue(db, source=source)
        ids = [(await jobs.submit(db, [new(source=source)])).ids[0] for _ in range(9)]
        for _ in ids:
            await queue.dispatcher.step()
        placed = [await queue.job(id) for id in ids]
        assert [job.capacity_type for job in placed] == ["reserved"] * 8 + ["on-demand"]
        assert [job.hold_micro for job in placed[:8]] == [0] * 8
        assert (placed[8].hold_micro or 0) > 0
        assert {job.rate_micro for job in placed[:8]} == {0}

    database(scenario)
    (tenant,) = (tenant for tenant in source.plan().tenants if tenant.name == "vision")
    (offer,) = offers(source.plan(), supply_of(source.plan()), tenant, GpuRequest("notebooks"))
    assert offer.rate("reserved") == 0 < offer.rate("on-demand")
