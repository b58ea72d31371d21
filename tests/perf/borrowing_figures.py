"""Borrowing: how long a round takes while much is taken back, and how much of a pool is used with and
without it.

Both are of decisions alone, without the database: which rows a round reads is measured elsewhere. How long a
tenant waits for its own is measured on the local cluster.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import yaml

from gpupool.local.control_plane import ControlPlane
from gpupool.queue.domain.decide import decide
from gpupool.queue.domain.state import Held, Holdings, Queued, Snapshot
from gpupool.queue.domain.supply import Node, PoolSupply, QueueRules, Supply, TenantRule
from gpupool.queue.records import MICRO, Level, Offer
from gpupool.queue.store.embedded import Embedded
from gpupool.queue.store.migrate import migrate
from tests.cluster.kube import Kube
from tests.cluster.queue.conftest import ENVIRONMENT
from tests.cluster.queue.served import Queue, serving
from tests.queue.domain.simulated import Cluster
from tests.queue.domain.simulated import offer as offer_of
from tests.queue.domain.simulated import pool as pool_of
from tests.queue.domain.simulated import supply as supply_of
from tests.queue.domain.simulated import tenant as tenant_of
from tests.queue.lanes import in_lanes

Figure = tuple[str, float]
GPU = "nvidia.com/gpu"
TENANTS, NODES, SLOTS, ROUNDS, RETURNS = 1000, 100, 8, 200, 200
DAY_S, STEP_S = 86_400, 30
OFFER = Offer("pool", GPU, 1, 1, MICRO, 2 * MICRO, None, "a100")


def borrowing(_: Path) -> Iterator[Figure]:
    times = sorted(_rounds())
    yield "borrowing-round-p99", times[int(len(times) * 0.99)] * 1000
    without, lent = (_used(up_to) for up_to in (None, 16))
    print(
        f"of the pool is in use while jobs wait: {without:.0%} without borrowing, {lent:.0%} with it",
        file=sys.stderr,
    )
    yield "borrowing-use", without / lent


def _rounds() -> Iterator[float]:
    """Rounds at 1,000 tenants with one lane each. A quarter of the pool is borrowed; each round somebody
    below its grant comes back, one of those that were asked to end is gone, and everybody else waits."""
    nodes = tuple(Node(number, "on-demand", {GPU: SLOTS}) for number in range(NODES))
    pool = PoolSupply("pool", "a100", nodes, {GPU: MICRO}, {GPU: 2 * MICRO}, None, 0.0)
    key = ("pool", GPU)
    rules = {
        f"t{n}": TenantRule(f"t{n}", 1.0, None, {key: 1}, {key: 1}, {}, {key: 8}) for n in range(TENANTS)
    }
    supply = Supply({"pool": pool}, rules, QueueRules("fair-share", 1e9, 1e9))
    held = []
    for slot in range(NODES * SLOTS):
        borrowed = slot % 4 == 0
        tenant = f"t{slot // 4 % 100}" if borrowed else f"t{slot % 600}"
        place = ((slot // SLOTS, 1),)
        held.append(
            Held(
                f"h{slot}", 1, tenant, None, Level.LOW, "pool", GPU, "on-demand", place, MICRO, 0, 0.0, 10**6,
                True, borrowed=borrowed,
            )
        )  # fmt: skip
    holdings, now = Holdings.of(held), 100.0
    # Those that hold something may borrow; of the others, 20 come back in turn.
    waiting = [_job(number, f"t{number}", preemptible=True) for number in range(600)]
    back = [_job(1000 + number, f"t{600 + number % 400}", preemptible=False) for number in range(ROUNDS + 20)]
    floors: dict[tuple[str, str], int] = {}
    owners = back[:20]
    for number in range(ROUNDS):
        snapshot = Snapshot(now, holdings, in_lanes((*waiting, *owners)), floors=floors)
        began = time.perf_counter()
        decision = decide(snapshot, supply)
        yield time.perf_counter() - began
        floors = dict(decision.floors)
        for preempt in decision.preempts:
            holdings.add(holdings.jobs[preempt.job]._replace(preempting_for=preempt.beneficiary))
        going = next((job for job in holdings.jobs.values() if job.preempting_for), None)
        if going is not None:
            holdings.remove(going.job)
            holdings.add(
                going._replace(preempting_for=None, borrowed=number % 2 == 0)
            )  # somebody else's by now
        owners = [*owners[1:], back[20 + number]]
        now += 1.0


def _job(number: int, tenant: str, preemptible: bool) -> Queued:
    return Queued(
        f"j{number:05}", 0, tenant, None, "lane", Level.LOW, 0.0, (OFFER,), 3600, None, 0, preemptible, False
    )


def _used(up_to: int | None) -> float:
    """Share of a pool of 16 GPUs that is in use while jobs wait, over a day: four tenants, each granted a
    quarter, whose work comes in bursts."""
    of = pool_of(nodes=4, slots=4)
    names = ("a", "b", "c", "d")
    tenants = [tenant_of(name, [of], granted=4, guaranteed=4, up_to=up_to) for name in names]
    cluster = Cluster(supply_of([of], tenants), grace=30)
    draw = random.Random(7)
    bursts = sorted((draw.uniform(0, 80_000), draw.choice(names)) for _ in range(24))
    used = waited = 0.0
    while cluster.now < DAY_S:
        while bursts and bursts[0][0] <= cluster.now:
            _, name = bursts.pop(0)
            for _ in range(draw.randint(4, 24)):
                takes = draw.choice((600, 1800, 3600))
                cluster.add(name, (offer_of(of),), 7200, takes=takes, preemptible=True)
        cluster.round()
        if cluster.queued:
            used += sum(held.units for held in cluster.held.values()) * STEP_S
            waited += 16 * STEP_S
        cluster.wait(STEP_S)
    return used / waited


def returns(folder: Path) -> Iterator[Figure]:
    """200 times a job of a tenant that others have borrowed from, on the local cluster: from its submission
    until it runs. Jobs have the least runtime of one second, and end at once when they are asked to."""
    plane = ControlPlane(Path(tempfile.mkdtemp(prefix="gpupool-bench-")) / "local")
    data = Path(tempfile.mkdtemp(prefix="gpupool-queue-bench-"))
    server = Embedded(data)
    try:
        plane.up(lambda _: None)
        with psycopg.connect(server.start(), autocommit=True) as connection:
            connection.execute("CREATE DATABASE returns")
        migrate(server.url("returns"))
        spec = yaml.safe_load(ENVIRONMENT.read_text(encoding="utf-8"))
        spec["queue"] = {**spec.get("queue", {}), "minimumRuntime": "1s"}
        spec["tenants"][0]["pools"] = {"training": {"gpus": 4, "upTo": 8}}
        spec["tenants"][1]["pools"] = {"training": {"gpus": 4}}
        with serving(Kube(plane), plane, spec, server.url("returns"), folder) as queue:
            for _ in range(8):
                _job_of(queue, "vision", "trap 'exit 143' TERM; while :; do sleep 0.1; done", "low")
            for _ in range(RETURNS // 4):
                queue.until("eight run", lambda: _running(queue, "vision") == 8, 120)
                time.sleep(1)
                for _ in range(4):
                    _job_of(queue, "speech", "sleep 1", "high")
                queue.until("they are done", lambda: _running(queue, "speech") == 0, 120)
            rows = queue.rows(
                "SELECT extract(epoch FROM started_at - enqueued_at)::float8 AS seconds FROM gpu_jobs "
                "WHERE tenant = 'speech' ORDER BY 1"
            )
        times = [row["seconds"] for row in rows]
        assert len(times) == RETURNS, len(times)
        yield "borrowing-return", times[len(times) // 2]
        yield "borrowing-return-p99", times[int(len(times) * 0.99)]
    finally:
        server.stop()
        plane.down()
        shutil.rmtree(data, ignore_errors=True)
        shutil.rmtree(plane.layout.data.parent, ignore_errors=True)


def _job_of(queue: Queue, tenant: str, script: str, priority: str) -> None:
    with queue.client(tenant) as client:
        client.submit_job(
            gpu_pool_requested="training",
            container_image="busybox:1.37",
            container_command=["sh", "-c", script],
            priority=priority,
        )


def _running(queue: Queue, tenant: str) -> int:
    """Jobs that run, and for the tenant that comes back, that do not run yet."""
    states = "state = 'running'" if tenant == "vision" else "finished_at IS NULL"
    (row,) = queue.rows(f"SELECT count(*) AS n FROM gpu_jobs WHERE tenant = %s AND {states}", tenant)
    return int(row["n"])
