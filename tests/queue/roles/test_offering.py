"""The environment file changes while jobs wait: their offers follow it, and no stale one starts anything."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gpupool.cli.queue.serve import _objects
from gpupool.queue.api.accept import accept
from gpupool.queue.api.requests import JobRequest
from gpupool.queue.domain.fit import FIELDS
from gpupool.queue.kubernetes.admission import Admission
from gpupool.queue.plan_source import PlanSource
from gpupool.queue.records import MICRO, JobState, Level, Outcome, WaitReason
from gpupool.queue.store import attempts, dispatch, jobs, outbox, plans
from gpupool.queue.store.database import Database
from tests.queue.acting import As
from tests.queue.roles.running import LOCAL, Queue
from tests.queue.store.samples import sql

Change = tuple[str, str]
"""Text of the environment file, and what replaces it."""

SLICED: Change = (
    "gpu: a10g\n    nodes: {instanceTypes: [g5.12xlarge], max: 2",
    "gpu: a10g\n    overcommit: true\n    sharing: {mode: time-slicing, replicas: 4}\n"
    "    nodes: {instanceTypes: [g5.xlarge], max: 4",
)
FAIL: Change = ("queue:\n", "queue:\n  onImpossible: fail\n")


class Changing(Queue):
    """A queue whose file a test changes, and where no tenant borrows; jobs come as the API takes them."""

    def __init__(self, db: Database, file: Path) -> None:
        self.file = file
        self.text = re.sub(r", upTo: [0-9]+\}.*", "}", LOCAL.read_text())
        file.write_text(self.text)
        super().__init__(db, source=PlanSource(file))

    def edit(self, *changes: Change) -> None:
        """The file with these changes and no others."""
        text = self.text
        for before, after in changes:
            assert before in text, before
            text = text.replace(before, after, 1)
        self.file.write_text(text)
        self.source.refresh()
        assert self.source.state().refused is None, self.source.state()

    async def ask(self, tenant: str = "vision", project: str | None = None, **fields: Any) -> str:
        """The id of a job that the API accepts by the present file."""
        current = self.source.current
        body = JobRequest(**{"container_image": "work:1", "timeout_seconds": 3600, **fields})
        made = accept(current, current.tenants[tenant], project, "ada", body, datetime.now(UTC))
        return (await jobs.submit(As(self.db, "api"), made)).ids[0]

    async def settle(self) -> None:
        while await self.dispatcher.step():
            pass

    async def why(self, id: str) -> tuple[WaitReason, str]:
        job = await self.job(id)
        assert job.waiting is not None, job
        return job.waiting.reason, job.waiting.detail


Scenario = Callable[[Changing], Coroutine[Any, Any, None]]


@pytest.fixture
def changing(database: Any, tmp_path: Path) -> Callable[[Scenario], None]:
    def run(scenario: Scenario) -> None:
        async def test(db: Database) -> None:
            await scenario(Changing(db, tmp_path / "local.yaml"))

        database(test)

    return run


def test_a_pool_that_is_cut_into_slices_offers_what_each_request_comes_to_there(changing: Any) -> None:
    async def scenario(queue: Changing) -> None:
        pair = await queue.ask(gpu_pool_requested="training", gpu_count=2)
        alone = await queue.ask(gpu_pool_requested="training", isolation_level="exclusive")
        shared = await queue.ask(gpu_pool_requested="training")
        whole = (await queue.job(shared)).offers[0]
        queue.edit(SLICED)
        await queue.settle()
        reason, detail = await queue.why(pair)
        assert reason is WaitReason.UNSCHEDULABLE
        assert "2 GPUs" in detail
        assert "pools[training].sharing" in detail
        assert (await queue.job(pair)).offers == ()
        jobs = [await queue.job(id) for id in (alone, shared)]
        assert [job.state for job in jobs] == [JobState.SCHEDULED] * 2
        assert [job.gpu_micro for job in jobs] == [MICRO, MICRO // 4]
        assert [job.placement for job in jobs] == [((0, 4),), ((1, 1),)]
        assert (jobs[1].rate_micro or MICRO) < whole.rate_micro / 3, "it pays for what it holds"
        assert {job.plan_hash for job in jobs} == {queue.source.current.hash}
        for job in jobs:
            await attempts.finish(queue.db, job.id, 1, Outcome("succeeded"), queue.now(), (0, 0))
        queue.edit()
        await queue.settle()
        assert ((await queue.job(pair)).gpu_micro, (await queue.job(pair)).state) == (
            2 * MICRO,
            JobState.SCHEDULED,
        )

    changing(scenario)


TRAINING = (
    "  - name: training\n    description: Whole A10Gs, four to a machine\n    gpu: a10g\n"
    "    nodes: {instanceTypes: [g5.12xlarge], max: 2, consolidateAfter: 30s}\n"
)
GRANT: Change = ("      training: {gpus: 4}\n", "")
"""The first that there is, which is vision's."""
NOT_POSSIBLE: list[tuple[dict[str, Any], list[Change], str]] = [
    ({"gpu_pool_requested": "training"}, [(TRAINING, ""), GRANT, GRANT], "pools in"),
    ({"gpu_pool_requested": "training"}, [GRANT], "tenants[vision].pools in"),
    (
        {"gpu_pool_requested": "training", "gpu_count": 4},
        [("training: {gpus: 4}", "training: {gpus: 3}")],
        "tenants[vision].pools.training",
    ),
    (
        {"gpu_pool_requested": "training", "gpu_count": 4},
        [("maxPriority: training\n", "maxPriority: training\n    limits: {gpusPerJob: 2}\n")],
        "tenants[vision].limits.gpusPerJob",
    ),
    ({"project": "detector"}, [("projects: [detector, ", "projects: [")], "tenants[vision].projects"),
    (
        {"tenant": "serving", "gpu_pool_requested": "3g.40gb"},
        [("{3g.40gb: 1, 2g.20gb: 2}", "{2g.20gb: 3}"), ("{3g.40gb: 8, 2g.20gb: 16}", "{2g.20gb: 16}")],
        "pools in",
    ),
    (
        {"env_from_secrets": ["hub"]},
        [("maxPriority: training\n", "maxPriority: training\n    jobs: {secrets: [other]}\n")],
        "tenants[vision].jobs.secrets",
    ),
    (
        {"gpu_pool_requested": "t4"},
        [("gpu: t4", "gpu: l4"), ("g4dn.xlarge", "g6.xlarge")],
        "pools in",
    ),
    (
        {"container_image": None, "target_url": "http://example/x", "request_json": {}},
        [('targets: ["http://example"]', 'targets: ["http://other"]')],
        "queue.targets",
    ),
]


@pytest.mark.parametrize(("asked", "changes", "field"), NOT_POSSIBLE)
def test_what_fits_no_longer_names_the_field_and_waits_until_it_is_back(
    changing: Any, asked: dict[str, Any], changes: list[Change], field: str
) -> None:
    async def scenario(queue: Changing) -> None:
        id = await queue.ask(**asked)
        accepted = await queue.job(id)
        queue.edit(*changes)
        await queue.settle()
        reason, detail = await queue.why(id)
        assert (reason, (await queue.job(id)).state) == (WaitReason.UNSCHEDULABLE, JobState.QUEUED)
        assert field in detail
        seen = await queue.job(id)
        await queue.settle()
        assert await queue.job(id) == seen, "nothing is written again without a change"
        queue.edit()
        await queue.settle()
        back = await queue.job(id)
        assert (back.state, back.offers) == (JobState.SCHEDULED, accepted.offers)

    changing(scenario)


def test_jobs_of_a_tenant_that_is_removed_wait_for_it_and_keep_their_priority(changing: Any) -> None:
    async def scenario(queue: Changing) -> None:
        id = await queue.ask(priority="high", gpu_pool_requested="training")
        start, end = queue.text.index("  - name: vision"), queue.text.index("  - name: serving")
        queue.edit((queue.text[start:end], ""))
        await queue.settle()
        reason, detail = await queue.why(id)
        assert reason is WaitReason.UNSCHEDULABLE
        assert "no tenant vision" in detail
        assert "change tenants in" in detail
        queue.edit()
        await queue.settle()
        assert ((await queue.job(id)).state, (await queue.job(id)).level) == (
            JobState.SCHEDULED,
            Level.HIGH,
        )

    changing(scenario)


def test_a_pool_that_is_added_is_used(changing: Any) -> None:
    async def scenario(queue: Changing) -> None:
        id = await queue.ask(gpu_pool_requested="a10g", isolation_level="exclusive")
        before = await queue.job(id)
        more = TRAINING.replace("name: training", "name: training-more").replace("g5.12xlarge", "g5.xlarge")
        granted = (
            "      training: {gpus: 4}\n",
            "      training: {gpus: 4}\n      training-more: {gpus: 2}\n",
        )
        queue.edit((TRAINING, TRAINING + more), granted)
        await queue.settle()
        job = await queue.job(id)
        assert [offer.pool for offer in before.offers] == ["training"]
        assert {offer.pool for offer in job.offers} == {"training", "training-more"}
        assert job.pool == "training-more", "a machine with one GPU is cheaper"

    changing(scenario)


def test_a_price_that_changes_is_what_a_waiting_job_pays(changing: Any) -> None:
    async def scenario(queue: Changing) -> None:
        id = await queue.ask(gpu_pool_requested="training")
        before = (await queue.job(id)).offers[0].rate_micro
        queue.edit(("[g5.12xlarge], max: 2", "[g5.48xlarge], max: 2"))
        await queue.settle()
        job = await queue.job(id)
        assert job.rate_micro == job.offers[0].rate_micro != before

    changing(scenario)


def test_a_priority_that_is_cut_is_lowered_and_comes_back(changing: Any) -> None:
    async def scenario(queue: Changing) -> None:
        # What it depends on runs, so that it waits all the time.
        first = await queue.ask(gpu_pool_requested="training")
        id = await queue.ask(gpu_pool_requested="training", priority="high", depends_on=first)
        cut = ("maxPriority: training", "maxPriority: research")
        for changes, level in (
            ([cut], Level.LOW),
            ([], Level.HIGH),
            (
                [
                    ("  - {name: training, value: 500, level: high}\n", ""),
                    ("maxPriority: training", "maxPriority: research"),
                ],
                Level.LOW,
            ),
            ([], Level.HIGH),
        ):
            queue.edit(*changes)
            await queue.settle()
            assert ((await queue.job(id)).level, (await queue.job(id)).state) == (level, JobState.QUEUED)
        events = [event.data["priority"] for event in await outbox.of_job(queue.db, id) if event.seq > 1]
        assert events == ["low", "high", "low", "high"]

    changing(scenario)


def test_a_job_that_is_queued_again_after_a_change_has_offers_of_the_new_file(changing: Any) -> None:
    async def scenario(queue: Changing) -> None:
        id = await queue.ask(gpu_pool_requested="training")
        await queue.settle()
        held = await queue.job(id)
        queue.edit(SLICED)
        await queue.settle()
        assert (await queue.job(id)).gpu_micro == MICRO, "what runs goes on as it was decided"
        lost = Outcome("disrupted", "its node went")
        await attempts.finish(queue.db, id, held.attempt, lost, queue.now(), (0, 0))
        await queue.settle()
        assert ((await queue.job(id)).attempt, (await queue.job(id)).gpu_micro) == (2, MICRO // 4)

    changing(scenario)


def test_nothing_is_claimed_by_offers_of_another_plan(changing: Any) -> None:
    async def scenario(queue: Changing) -> None:
        id = await queue.ask(gpu_pool_requested="training", gpu_count=2)
        queue.edit(SLICED)
        # The round itself, without what makes offers: it sees the job, and must not start it.
        epoch = await queue.dispatcher.leadership.seek()
        assert epoch is not None
        assert (await queue.dispatcher.round(epoch)).started == 0
        job = await queue.job(id)
        assert (job.state, job.waiting) == (JobState.QUEUED, None)
        from gpupool.queue.domain.decide import decide
        from gpupool.queue.store.snapshot import take_snapshot

        queue.edit()
        supply, _ = queue.source.supply()
        decision = decide(await take_snapshot(queue.db, queue.now(), 10), supply)
        assert [start.job for start in decision.starts] == [id]
        assert await dispatch.claim(queue.db, epoch, decision, "another", 30, queue.now()) == []
        assert (await queue.job(id)).state is JobState.QUEUED

    changing(scenario)


def test_with_fail_it_ends_with_its_dependents_unless_an_api_is_ahead_of_the_leader(changing: Any) -> None:
    async def scenario(queue: Changing) -> None:
        queue.edit(FAIL)
        await queue.settle()
        running = await queue.ask(gpu_pool_requested="training-a100")
        await queue.settle()
        id = await queue.ask(gpu_pool_requested="training", gpu_count=2, depends_on=running)
        child = await queue.ask(gpu_pool_requested="training-a100", depends_on=id)
        queue.edit(FAIL, SLICED)
        await queue.settle()
        job = await queue.job(id)
        assert (job.state, job.failures) == (JobState.FAILED, 0)
        assert job.reason
        assert job.reason.startswith("unschedulable: ")
        assert "pools[training].sharing" in job.reason
        assert ((await queue.job(child)).state, (await queue.job(child)).reason) == (
            JobState.CANCELLED,
            "dependency",
        )
        assert [event.type for event in await outbox.of_job(queue.db, id)] == ["enqueued", "failed"]
        ((count,),) = [
            row.values() for row in await sql(queue.db, "SELECT sum(queued)::int FROM tenant_gpu_policies")
        ]
        assert count == 0
        # Another process has read a later file, of which this leader knows nothing yet.
        ahead = await queue.ask(gpu_pool_requested="training")
        await sql(
            queue.db,
            "UPDATE gpu_jobs SET plan_hash = 'later', request = request || '{\"gpu_count\": 2}'"
            " WHERE id = %s::uuid RETURNING id",
            ahead,
        )
        await queue.settle()
        assert (await queue.why(ahead))[0] is WaitReason.UNSCHEDULABLE
        assert (await queue.job(ahead)).state is JobState.QUEUED

    changing(scenario)


def test_a_job_that_is_not_possible_stays_so_when_other_things_of_it_change(changing: Any) -> None:
    async def scenario(queue: Changing) -> None:
        first = await queue.ask(gpu_pool_requested="training-a100")
        id = await queue.ask(gpu_pool_requested="training", gpu_count=2, depends_on=first)
        queue.edit(SLICED)
        await queue.settle()
        why = await queue.why(id)
        assert why[0] is WaitReason.UNSCHEDULABLE
        await jobs.reprioritise(As(queue.db, "api"), id, "low", Level.LOW)
        held = await queue.job(first)
        await attempts.finish(queue.db, first, held.attempt, Outcome("succeeded"), queue.now(), (0, 0))
        await queue.settle()
        assert await queue.why(id) == why
        assert not (await queue.job(id)).blocked
        cancelled = await jobs.cancel(As(queue.db, "api"), id, "ada", queue.now())
        assert cancelled is not None
        assert cancelled.state is JobState.CANCELLED

    changing(scenario)


def test_tenants_and_the_plan_in_force_are_the_leaders_alone(changing: Any) -> None:
    async def scenario(queue: Changing) -> None:
        await queue.settle()
        first = await plans.in_force(queue.db)
        assert first is not None
        assert first.hash == queue.source.current.hash
        assert first.holder == queue.holder
        queue.edit(("weight: 2", "weight: 7"))
        folder = queue.file.parent / "other"
        folder.mkdir()
        other = Changing(queue.db, folder / queue.file.name)
        await other.settle()
        assert await plans.in_force(queue.db) == first, "it does not lead"
        await queue.settle()
        second = await plans.in_force(queue.db)
        assert second is not None
        assert second.hash == queue.source.current.hash
        assert second.since > first.since
        weights = await sql(queue.db, "SELECT weight FROM tenant_gpu_policies WHERE tenant = 'vision'")
        assert [row["weight"] for row in weights] == [7.0]
        await queue.dispatcher.leadership.resign()
        queue.edit(("weight: 2", "weight: 7"))
        await queue.settle()
        again = await plans.in_force(queue.db)
        assert again is not None
        assert again.since == second.since, "the same Plan goes on"

    changing(scenario)


def test_fields_that_set_jobs_apart_are_all_that_a_fit_reads() -> None:
    assert set(FIELDS) <= JobRequest.model_fields.keys()
    read: set[str] = set()

    class Reading(dict[str, Any]):
        def get(self, name: str, default: Any = None) -> Any:
            read.add(name)
            return super().get(name, default)

    from gpupool.queue.domain import fit

    current = PlanSource(LOCAL).current
    tenant = current.tenants["vision"]
    body = JobRequest(container_image="work:1").model_dump(mode="json")
    rank = fit.rank_of(current.plan, tenant, None)
    fit.fit(current.plan, current.supply, replace(tenant, checkpoints="s3://a/"), Reading(body), rank)
    assert read == set(FIELDS)


def test_a_policy_that_a_change_brings_denies_what_waits_of_container_jobs(changing: Any) -> None:
    async def scenario(queue: Changing) -> None:
        assert queue.dispatcher.offering is not None
        queue.dispatcher.offering.admission = Admission(_objects)
        lenient = ("  overrides:\n", "  overrides:\n    pin-images: warn\n")
        queue.edit(lenient)
        await queue.settle()
        first = await queue.ask(gpu_pool_requested="training-a100")
        await queue.settle()
        id = await queue.ask(container_image="work:latest", depends_on=first)
        fine = await queue.ask(container_image="work:2", depends_on=first)
        queue.edit()
        await queue.settle()
        reason, detail = await queue.why(id)
        assert reason is WaitReason.UNSCHEDULABLE
        assert "policy pin-images" in detail
        assert "change policies in" in detail
        assert (await queue.job(fine)).offers
        queue.edit(lenient)
        await queue.settle()
        assert (await queue.job(id)).offers

    changing(scenario)
