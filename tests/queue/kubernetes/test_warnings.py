"""How events are read for attempts that wait: for all of a namespace at once, seldom, in the background."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from gpupool.live.cluster.kube_api import UnreachableError
from gpupool.queue.kubernetes import warnings
from gpupool.queue.kubernetes.cluster import KubernetesCluster
from gpupool.queue.kubernetes.warnings import Warnings, cause, sentence

START = datetime(2026, 11, 18, tzinfo=UTC)


class Events:
    """A cluster of which only the events are asked for."""

    def __init__(self) -> None:
        self.time = START
        self.read: Counter[str] = Counter()
        self.over: Counter[str] = Counter()
        """Reads that have ended, whose answers are known from then on."""
        self.silent = False

    def now(self) -> datetime:
        return self.time

    async def wait(self, **reads: int) -> None:
        """Until the namespaces have been read so often."""
        async with asyncio.timeout(60):
            while any(self.over[namespace] < count for namespace, count in reads.items()):
                await asyncio.sleep(0.01)

    async def warnings(self, namespace: str) -> dict[str, list[str]]:
        self.read[namespace] += 1
        await asyncio.sleep(0.001)
        self.over[namespace] += 1
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
        await events.wait(a=1, b=1)
        assert read.about(thing("a", 1), START) == "no node; no quota"
        assert read.about(thing("a", 2), START) == ""
        assert events.read == {"a": 1, "b": 1}
        # Who began to wait later is not answered from what was read before.
        assert read.about(thing("a", 1), START + timedelta(seconds=1)) is None
        events.time += timedelta(seconds=2)
        await events.wait(a=2)
        assert read.about(thing("a", 1), START + timedelta(seconds=1)) == "no node; no quota"
        events.time += warnings.AGAIN + timedelta(seconds=1)
        assert read.about(thing("a", 1), START) == "no node; no quota"
        await events.wait(a=3)
        read.close()

    asyncio.run(run())


def test_a_cluster_that_does_not_answer_is_asked_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warnings, "LEAST_S", 0.01)

    async def run() -> None:
        events = Events()
        events.silent = True
        read = Warnings(events.warnings, events.now)
        assert read.about(thing("a", 1), START) is None
        await events.wait(a=1)
        events.silent = False
        assert read.about(thing("a", 1), START) is None
        await events.wait(a=2)
        assert read.about(thing("a", 1), START) == "no node; no quota"
        read.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        (
            "Error creating: pods \"gp-a-1-x2b7k\" is forbidden: ValidatingAdmissionPolicy 'pin-images' with "
            "binding 'pin-images' denied request: image busybox is not pinned",
            "policy pin-images: image busybox is not pinned",
        ),
        (
            "jobs.batch \"gp-a-1\" is forbidden: ValidatingAdmissionPolicy 'own' with binding 'b' denied "
            "request: no",
            "policy own: no",
        ),
        (
            'Error creating: pods "gp-a-1-x2b7k" is forbidden: exceeded quota: none, requested: pods=1',
            "exceeded quota: none, requested: pods=1",
        ),
        ("0/3 nodes are available:\n 3 Insufficient cpu", "0/3 nodes are available: 3 Insufficient cpu"),
        (
            "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. no new claims to deallocate, "
            "preemption: not eligible due to preemptionPolicy=Never.",
            "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
        ),
        ('namespaces "nowhere" not found', 'namespaces "nowhere" not found'),
    ],
)
def test_a_message_is_its_cause_alone(text: str, plain: str) -> None:
    assert cause(text) == plain


def test_a_long_text_is_cut_between_words() -> None:
    shown = sentence("word " * 200)
    assert len(shown) <= warnings.LONGEST
    assert shown.endswith("word ...")
    assert sentence("one two") == "one two"


def test_of_each_component_its_last_word_is_shown() -> None:
    """Each try of the Job controller has a pod of another name and an event of its own."""
    denied = "is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: no"
    said = [
        ("1", "job-controller", "FailedCreate", f'Error creating: pods "gp-1-abcde" {denied}'),
        ("1", "job-controller", "FailedCreate", f'Error creating: pods "gp-1-fghij" {denied}'),
        ("2", "karpenter", "FailedScheduling", "no instance type satisfied resources"),
        ("2", "autoscaler", "FailedScheduling", "paused"),
        ("2", "karpenter", "FailedScheduling", "limits have been exhausted"),
    ]

    class Api:
        async def list_all(self, path: str, query: dict[str, str]) -> tuple[list[Any], str]:
            return [
                {
                    "metadata": {"creationTimestamp": f"2026-01-01T00:00:0{number}Z"},
                    "involvedObject": {"uid": uid},
                    "source": {"component": component},
                    "reason": reason,
                    "message": message,
                }
                for number, (uid, component, reason, message) in enumerate(said)
            ], "1"

    cluster = KubernetesCluster(cast("Any", Api()))
    assert asyncio.run(cluster.warnings("team")) == {
        "1": ["policy p: no"],
        "2": ["paused", "limits have been exhausted"],
    }
