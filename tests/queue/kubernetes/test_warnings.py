"""How events are read for attempts that wait: for all of a namespace at once, seldom, in the background."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from gpupool.cluster.kube_api import UnreachableError
from gpupool.queue.kubernetes import warnings
from gpupool.queue.kubernetes.warnings import Warnings

START = datetime(2026, 11, 18, tzinfo=UTC)


class Events:
    """A cluster of which only the events are asked for."""

    def __init__(self) -> None:
        self.time = START
        self.read: Counter[str] = Counter()
        self.silent = False

    def now(self) -> datetime:
        return self.time

    async def warnings(self, namespace: str) -> dict[str, list[str]]:
        self.read[namespace] += 1
        await asyncio.sleep(0.001)
        if self.silent:
            raise UnreachableError("no answer")
        return {f"{namespace}-1": ["no node", "no quota"]}


def thing(namespace: str, number: int) -> dict[str, object]:
    return {"metadata": {"namespace": namespace, "uid": f"{namespace}-{number}"}}


def test_a_namespace_is_read_once_for_all_who_wait_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warnings, "LEAST_S", 0.01)

    async def run() -> None:
        events = Events()
        read = Warnings(events.warnings, events.now)
        for number in range(100):
            for namespace in ("a", "b"):
                assert read.about(thing(namespace, number), START) is None
        await asyncio.sleep(0.2)
        assert events.read == {"a": 1, "b": 1}
        assert read.about(thing("a", 1), START) == "no node; no quota"
        assert read.about(thing("a", 2), START) == ""
        assert events.read == {"a": 1, "b": 1}
        # Who began to wait later is not answered from what was read before.
        assert read.about(thing("a", 1), START + timedelta(seconds=1)) is None
        events.time += timedelta(seconds=2)
        await asyncio.sleep(0.2)
        assert read.about(thing("a", 1), START + timedelta(seconds=1)) == "no node; no quota"
        events.time += warnings.AGAIN + timedelta(seconds=1)
        assert read.about(thing("a", 1), START) == "no node; no quota"
        await asyncio.sleep(0.2)
        assert events.read["a"] >= 3
        read.close()

    asyncio.run(run())


def test_a_cluster_that_does_not_answer_is_asked_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warnings, "LEAST_S", 0.01)

    async def run() -> None:
        events = Events()
        events.silent = True
        read = Warnings(events.warnings, events.now)
        assert read.about(thing("a", 1), START) is None
        await asyncio.sleep(0.2)
        assert events.read["a"] == 1
        events.silent = False
        assert read.about(thing("a", 1), START) is None
        await asyncio.sleep(0.2)
        assert read.about(thing("a", 1), START) == "no node; no quota"
        read.close()

    asyncio.run(run())
