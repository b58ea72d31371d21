"""The environment file changes while the service runs: tenants follow it, also after a failure."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from gpupool.queue.plan_source import PlanSource
from gpupool.queue.roles.policies import Policies
from gpupool.queue.store.database import Database
from tests.queue.roles.running import LOCAL
from tests.queue.store.samples import sql


def test_tenants_follow_the_file_and_are_written_again_after_a_failure(database, tmp_path: Path) -> None:
    file = tmp_path / "local.yaml"
    file.write_text(LOCAL.read_text())

    async def weights(db: Database) -> set[float]:
        return {row["weight"] for row in await sql(db, "SELECT weight FROM tenant_gpu_policies")}

    async def scenario(db: Database) -> None:
        policies = Policies(db, PlanSource(file))
        assert await policies.step()
        assert not await policies.step()
        before = await weights(db)
        file.write_text("kind: Environment\n")
        assert not await policies.step(), "a wrong file changes nothing"
        assert await weights(db) == before
        file.write_text(LOCAL.read_text().replace("weight: 2", "weight: 7"))
        async with db.connection() as connection:
            await connection.execute("ALTER TABLE tenant_gpu_policies RENAME TO away")
        with pytest.raises(psycopg.Error):
            await policies.step()
        async with db.connection() as connection:
            await connection.execute("ALTER TABLE away RENAME TO tenant_gpu_policies")
        assert await policies.step()
        assert 7.0 in await weights(db)

    database(scenario)
