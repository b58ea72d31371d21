"""What the relay publishes where the database gives no answer."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.queue.store import outbox
from gpupool.queue.store.database import Database
from gpupool.queue.store.errors import Unavailable
from tests.queue.roles.running import Queue, opened


def test_events_whose_place_was_written_without_an_answer_are_published(
    database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(db: Database) -> None:
        await opened(db)
        queue, place = Queue(db), outbox.place

        async def unanswered(*given: Any) -> None:
            await place(*given)
            raise Unavailable("no answer")

        await queue.relay.step()
        await queue.submit()
        with monkeypatch.context() as patched:
            patched.setattr(outbox, "place", unanswered)
            with pytest.raises(Unavailable):
                await queue.relay.step()
        await queue.submit()
        await queue.relay.step()
        assert [subject for subject, _ in queue.bus.messages] == ["mlops.gpu.jobs.enqueued"] * 2

    database(scenario)
