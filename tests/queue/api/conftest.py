"""The fixture of the API's tests."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from gpupool.queue.store.database import Database
from tests.queue.api.served import Served, local_plan, served

Test = Callable[[Served], Coroutine[Any, Any, Any]]


@pytest.fixture
def api(database: Any) -> Callable[..., Any]:
    """Runs `async def test(served)`; `dev` and further arguments of create_app may be given, or changes of
    the Plan as `queue` and `vision`, its first tenant."""

    def run(
        test: Test,
        dev: bool = True,
        queue: dict[str, Any] | None = None,
        vision: dict[str, Any] | None = None,
        **more: Any,
    ) -> Any:
        first, *others = local_plan().tenants
        plan = replace(
            local_plan(),
            queue=replace(local_plan().queue, **(queue or {})),
            tenants=(replace(first, **(vision or {})), *others),
        )

        async def opened(db: Database) -> Any:
            async with served(db, plan, dev, **more) as running:
                return await test(running)

        return database(opened)

    return run
