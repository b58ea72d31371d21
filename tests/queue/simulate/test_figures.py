"""What is said of a run: percentiles, assertions, words, numbers of the model, the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.environment.drawings.quantiles import quantiles
from gpupool.environment.drawings.series import Steps, means, series
from gpupool.environment.plan.resolve import read_plan
from gpupool.findings import SpecError, UsageError
from gpupool.queue.domain.placement import Slots
from gpupool.queue.simulate import words
from gpupool.queue.simulate.assertions import check, expectation, judge
from gpupool.queue.simulate.figures import PLAIN, TIMES, named, percentile, spread
from gpupool.queue.simulate.formats import read
from gpupool.queue.simulate.names_file import read_names
from gpupool.queue.simulate.numbers import NUMBERS, numbers
from gpupool.queue.simulate.page import page
from gpupool.queue.simulate.run import Outcome, Settings, sensitivity, simulate
from gpupool.queue.simulate.samples import fragmentation
from gpupool.queue.simulate.trace import Trace
from tests.queue.domain import simulated

ROOT = Path(__file__).parents[3]
MADE = read(Path(__file__).parent / "traces" / "made.yaml")


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    return simulate(
        read_plan(str(ROOT / "environments" / "local.yaml")), MADE, Settings(numbers(()), repeat=2)
    )


def test_percentiles_are_of_the_nearest_rank() -> None:
    assert percentile([], 0.5) is None
    assert percentile([7.0], 0.99) == 7
    assert [percentile(list(map(float, range(1, 101))), share) for share in (0.5, 0.95, 0.99)] == [50, 95, 99]


def test_groups_add_up(outcome: Outcome) -> None:
    run = outcome.figures
    for by in ("tenant", "level", "pool", "size"):
        rows = [group for group in run.groups if group.by == by]
        assert sum(group.jobs for group in rows) == run.jobs
        assert sum(group.served_gpu_hours for group in rows) == pytest.approx(run.served_gpu_hours, abs=0.05)
    assert run.usd == pytest.approx(sum(pool.usd for pool in run.pools), abs=0.02)
    assert 0 < run.utilisation <= 1  # type: ignore[operator]
    assert len(outcome.runs) == 2
    low, high = spread(outcome.runs)["usd"]
    assert low <= run.usd <= high


@pytest.mark.parametrize(
    ("text", "value"),
    [("wait.p95<10m", 600), ("saved>=40%", 0.4), ("vision.to_gpu.p95 <= 90s", 90), ("spot_losses<3", 3)],
)
def test_what_may_be_asserted(text: str, value: float) -> None:
    assert expectation(text).value == value


@pytest.mark.parametrize("text", ["wait.p95", "wait.p95=10m", "wait.p95<", "<10m", "a b<1", "usd<1.2.3"])
def test_what_may_not_be_asserted(text: str) -> None:
    with pytest.raises(UsageError, match="--assert"):
        expectation(text)


def test_free_slots_that_a_typical_job_can_t_use() -> None:
    pool = simulated.pool("x", nodes=2, slots=4)
    slots = Slots.of({"x": pool}, {("x", simulated.GPU, 0): 2, ("x", simulated.GPU, 1): 1})
    assert fragmentation(slots, "x", {(simulated.GPU, 1): 1}) == (5, 0)
    assert fragmentation(slots, "x", {(simulated.GPU, 3): 1}) == (5, 2), "the two of the first node"
    assert fragmentation(slots, "x", {(simulated.GPU, 3): 1, (simulated.GPU, 1): 3}) == (5, 0.5)
    assert fragmentation(slots, "x", {(simulated.GPU, 8): 1}) == (5, 5), "it takes whole nodes"
    assert fragmentation(slots, "x", {}) == (5, 0)


def test_clocks_of_tenants_that_both_wait_are_within_the_bound() -> None:
    plan = read_plan(str(ROOT / "docs" / "simulation" / "team.yaml"))
    run = simulate(plan, read(ROOT / "docs" / "simulation" / "load.yaml"), Settings(numbers(()))).figures
    assert 0 < run.fairness.distance <= run.fairness.bound


def test_verdicts(outcome: Outcome) -> None:
    checks = [expectation(text) for text in ("jobs>0", "usd<0", "unknown.wait.p95<1h")]
    verdicts = judge(checks, outcome.figures)
    assert [verdict.holds for verdict in verdicts] == [True, False, False]
    assert "no such figure" in str(verdicts[2])
    check([expectation("vision.wait.p95<1h"), expectation("hours<9")], ["vision"])
    for wrong in ("waits<1", "wait.p96<1", "visoin.wait.p95<1"):
        with pytest.raises(UsageError, match="unknown figure"):
            check([expectation(wrong)], ["vision"])
    assert set(named(outcome.figures)) >= {*PLAIN, *TIMES, "vision.wait.p95", "serving.to_gpu.p50"}


def test_numbers_are_set_and_refused() -> None:
    assert numbers(["startup=5m", "again=0.5"])["startup"] == 300
    assert all(number.source for number in NUMBERS.values())
    for wrong in ("startup", "unknown=1", "startup=-1", "again=5m", "pod=x", "interrupted=1", "again=5"):
        with pytest.raises(UsageError, match="--set"):
            numbers([wrong])


def test_names_are_read_and_refused(tmp_path: Path) -> None:
    file = tmp_path / "names.yaml"
    file.write_text('tenants: {a: vision}\ngpus: {"*": ""}\n', encoding="utf-8")
    assert read_names(file).tenants == {"a": "vision"}
    for text in ("tenant: {a: b}\n", "tenants: [a]\n", "a: [\n"):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(SpecError, match=r"names\.yaml:[12]:\d+: "):
            read_names(file)
    with pytest.raises(SpecError, match="No such file"):
        read_names(tmp_path / "gone.yaml")


def test_another_file_is_compared_in_sentences(outcome: Outcome) -> None:
    run = outcome.figures
    vision = next(group for group in run.groups if group.name == "vision")
    later = vision.model_copy(
        update={"waits": vision.waits.model_copy(update={"p95": vision.waits.p95 + 240})}
    )
    groups = [later if group is vision else group for group in run.groups]
    other = run.model_copy(update={"usd_month": run.usd_month - 1900, "groups": groups})
    assert list(words.differences(run, other)) == ["$1,900 a month less", "vision waits 4 min longer at p95"]
    assert list(words.differences(run, run)) == []


def test_weak_numbers_are_halved_and_doubled() -> None:
    plan = read_plan(str(ROOT / "environments" / "local.yaml"))
    rows = sensitivity(plan, Trace(MADE.arrivals[:20]), Settings(numbers(())))
    assert {row.name for row in rows} == {name for name, number in NUMBERS.items() if number.weak}
    startup = next(row for row in rows if row.name == "startup")
    assert startup.half.to_gpu.p95 < startup.twice.to_gpu.p95  # type: ignore[operator]


def test_the_page_stands_alone(outcome: Outcome) -> None:
    text = page([outcome, outcome], judge([expectation("jobs>0")], outcome.figures))
    assert text.startswith("<!doctype html>")
    assert "<script" not in text
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "holds: jobs&gt;0" in text
    assert text.count('class="series"') == 2 * len(outcome.record.series)


def test_pictures_keep_their_area() -> None:
    line = Steps("held", [0.0, 10.0, 50.0], [1.0, 3.0, 0.0])
    parts = means(line, 0, 100, 8)
    assert sum(parts) * 100 / 8 == pytest.approx(1 * 10 + 3 * 40)
    assert max(parts) == pytest.approx(3)
    assert series("<x>", [line], 0, 100, 4, "one").count("&lt;x&gt;") == 1
    assert "1 min" in quantiles("times", {"a": [1.0, 60.0], "b": []}, "two")
