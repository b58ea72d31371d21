"""A trace on an environment: what holds at every moment, and the model's numbers one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.resolve import read_plan
from gpupool.queue.domain.current import current
from gpupool.queue.domain.scheduler_cache import SchedulerCache
from gpupool.queue.records import Decision
from gpupool.queue.simulate.engine import Simulation
from gpupool.queue.simulate.formats import read
from gpupool.queue.simulate.numbers import numbers
from gpupool.queue.simulate.record import Record
from gpupool.queue.simulate.run import Settings, simulate
from gpupool.queue.simulate.trace import MONDAY, Arrival, Trace
from tests.environment_files import environment_data, write_environment

ROOT = Path(__file__).parents[3]
LOCAL = ROOT / "environments" / "local.yaml"
MADE = read(Path(__file__).parent / "traces" / "made.yaml")


@pytest.fixture(scope="module")
def local() -> Plan:
    return read_plan(str(LOCAL))


def environment(folder: Path, **pool: object) -> Plan:
    """One pool of whole GPUs for one tenant."""
    nodes = {"instanceTypes": ["g5.xlarge"], "max": 2, "consolidateAfter": "60s", **pool}
    tenant = {"name": "a", "namespace": "team-a", "maxPriority": "research", "pools": {"batch": {"gpus": 2}}}
    data = environment_data(
        "local",
        pools=[{"name": "batch", "gpu": "a10g", "nodes": nodes}],
        priorities=[{"name": "research", "value": 100, "level": "low", "preemptible": True}],
        tenants=[tenant],
    )
    return read_plan(str(write_environment(folder, data)))


def played(plan: Plan, arrivals: list[Arrival], *changes: str, seed: int = 1) -> Record:
    return Simulation(current(plan), arrivals, numbers(changes), seed).play()


def job(at: float, seconds: float = 100, gpus: float = 1) -> Arrival:
    return Arrival(MONDAY + at, "a", None, gpus, None, seconds, "low")


def test_a_job_waits_for_its_node_and_the_node_goes_when_it_is_empty(tmp_path: Path) -> None:
    plan = environment(tmp_path)
    record = played(plan, [job(0), job(500)])
    first, second = record.jobs.values()
    assert first.wait_s == 0
    assert first.to_gpu_s == 1 + 180 + 2  # batch, startup, pod
    assert first.ended == MONDAY + 283
    assert record.nodes["batch"].launches == 2, "60 s and 25 s after the first job the node has gone"
    assert second.to_gpu_s == 183
    kept = played(plan, [job(0), job(300)])
    assert kept.nodes["batch"].launches == 1
    assert [row.to_gpu_s for row in kept.jobs.values()] == [183, 2]


def test_warm_nodes_are_there_and_paid_for(tmp_path: Path) -> None:
    record = played(environment(tmp_path, warm=1), [job(0), job(7200)])
    assert [row.to_gpu_s for row in record.jobs.values()] == [2, 2]
    assert record.nodes["batch"].usd == pytest.approx(1.006 * (record.end - record.begin) / 3600)


def test_what_does_not_fit_waits_and_jobs_are_cut_off(tmp_path: Path) -> None:
    plan = environment(tmp_path)
    arrivals = [replace(job(0, 1000), timeout_s=300), job(0, 200), job(1, 50)]
    record = played(plan, arrivals)
    cut, other, last = record.jobs.values()
    assert (cut.how, cut.ended) == ("timeout", MONDAY + 183 + 300)
    assert last.dispatched == other.ended
    assert last.to_gpu_s == other.ended - MONDAY - 1 + 2, "its node is there"


def test_lost_spot_nodes_end_jobs_that_go_on_elsewhere(tmp_path: Path) -> None:
    plan = environment(tmp_path, spotShare=1.0)
    arrivals = [job(number * 10, 30 * 86400) for number in range(2)]
    arrivals = [replace(arrival, timeout_s=14 * 86400) for arrival in arrivals]
    record = played(plan, arrivals, "interrupted=0.9")
    assert record.spot_losses > 0
    assert sum(row.disrupted for row in record.jobs.values()) > 0
    assert all(row.lost_s > 0 for row in record.jobs.values() if row.disrupted)
    none = played(plan, arrivals, "interrupted=0")
    assert none.spot_losses == 0
    kept = played(plan, arrivals, "interrupted=0.9", "again=0")
    assert all(row.lost_s == 0 for row in kept.jobs.values())


def test_what_the_queue_refuses_is_counted_by_its_reason(local: Plan) -> None:
    arrivals = [
        Arrival(MONDAY, "unknown", None, 1, None, 5),
        Arrival(MONDAY, "vision", "unknown", 1, None, 5),
        Arrival(MONDAY, "vision", None, 500, None, 5),
        Arrival(MONDAY, "vision", None, 1, "no-such-gpu", 5),
    ]
    record = played(local, arrivals)
    assert record.refused == Counter(
        {"tenant-not-granted": 1, "project-not-granted": 1, "gpus-not-possible": 1, "pool-not-found": 1}
    )


def test_the_same_seed_gives_the_same_run(local: Plan) -> None:
    runs = [simulate(local, MADE, Settings(numbers(()), seed)).figures for seed in (4, 4)]
    assert runs[0] == runs[1]


class EveryLane(SchedulerCache):
    """Looks at all lanes in each round."""

    def decisions(self) -> Iterator[Decision]:
        while True:
            before = {bound: holder.job for bound, holder in self.holders.items()}
            decision = self.round_of_all()
            yield decision
            if not decision.starts and not decision.preempts and decision.reservations == before:
                return


def test_all_lanes_in_every_round_come_to_the_same(local: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = played(local, list(MADE.arrivals))
    monkeypatch.setattr("gpupool.queue.simulate.engine.SchedulerCache", EveryLane)
    slow = played(local, list(MADE.arrivals))
    assert slow.rounds > 2 * fast.rounds
    starts = [[(row.dispatched, row.pool, row.ended) for row in run.jobs.values()] for run in (fast, slow)]
    assert starts[0] == starts[1]


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.floats(0, 5000), st.sampled_from(["vision", "serving"]), st.sampled_from([0.1, 0.25, 1, 2, 4]),
            st.floats(1, 5000), st.sampled_from([None, "low", "high", "critical"]),
        ),
        max_size=60,
    )
)  # fmt: skip
def test_every_job_ends_once_and_nothing_is_used_twice(local: Plan, rows: list[tuple]) -> None:  # type: ignore[type-arg]
    arrivals = sorted(
        (
            Arrival(MONDAY + at, tenant, None, gpus, None, seconds, level)
            for at, tenant, gpus, seconds, level in rows
        ),
        key=lambda arrival: arrival.submitted,
    )
    record = played(local, arrivals)
    assert len(record.jobs) + sum(record.refused.values()) == len(arrivals)
    ended = [row for row in record.jobs.values() if row.ended < inf]
    assert len(ended) + sum(record.never.values()) == len(record.jobs)
    for series in record.series.values():
        assert all(-1e-9 <= held <= series.gpus + 1e-9 for held in series.held)
        assert all(held <= on + 1e-9 for held, on in zip(series.held, series.on, strict=True))
    for row in ended:
        assert row.submitted <= row.dispatched <= row.begun <= row.ended
    assert sum(series.held[-1] for series in record.series.values() if series.held) == pytest.approx(0)


def test_an_empty_trace(local: Plan) -> None:
    run = simulate(local, Trace(()), Settings(numbers(()))).figures
    assert (run.jobs, run.waits.p95, run.utilisation) == (0, None, None)


def test_what_no_budget_ever_pays_for_ends_the_run_and_is_counted(tmp_path: Path) -> None:
    """Budgets begin again for ever; the run does not."""
    environment(tmp_path)
    data = yaml.safe_load((tmp_path / "trial.yaml").read_text(encoding="utf-8"))
    for period in ("day", "month"):
        data["tenants"][0]["budget"] = {"usd": 1, "period": period}
        file = write_environment(tmp_path, data)
        short = [replace(job(at), timeout_s=600) for at in (0, 10, 30)]
        dear = replace(job(20), seconds=360_000, timeout_s=360_000)
        trace = Trace((*short[:2], dear, replace(job(25), gpu="h100-80gb"), short[2]))
        run = simulate(read_plan(str(file)), trace, Settings(numbers(()))).figures
        assert run.jobs == 3, (period, run.left_out)
        assert run.jobs + sum(row.jobs for row in run.left_out) == len(trace.arrivals)
        assert run.hours < 24 * 70


def test_figures_of_runs_that_serve_little(tmp_path: Path) -> None:
    plan = environment(tmp_path)
    refused = [replace(job(at), gpu="h100-80gb") for at in (0, 86_400 * 30)]
    nothing = simulate(plan, Trace(tuple(refused)), Settings(numbers(()))).figures
    assert (nothing.jobs, nothing.saved, nothing.hours) == (0, None, 720)
    late = Trace((refused[0], replace(job(86_400 * 30), seconds=7200)))
    run = simulate(plan, late, Settings(numbers(()))).figures
    assert run.usd_month < run.usd * 1.1  # a month of which nearly all days have no job
    busy = Trace(tuple(replace(job(0), seconds=86_400 * 3) for _ in range(6)))
    run = simulate(plan, busy, Settings(numbers(()))).figures
    assert run.usd_month <= run.usd_fixed / run.hours * 730 + 1  # submitted at once, and served in nine days


def test_work_that_is_done_again_is_served_once(tmp_path: Path) -> None:
    plan = environment(tmp_path, spotShare=1)
    arrivals = tuple(replace(job(at * 40_000.0), seconds=100_000) for at in range(20))
    lossy = Settings(numbers(["interrupted=0.99"]))
    run = simulate(plan, Trace(arrivals), lossy).figures
    assert run.spot_losses > 0
    assert run.lost_gpu_hours > 0
    assert run.served_gpu_hours == pytest.approx(20 * 100_000 / 3600, abs=0.1)
