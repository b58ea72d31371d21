"""A deliberately poor file, and one that can't be bettered."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.environment.plan.resolve import read_plan, resolve
from gpupool.environment.spec.load import check_shape
from gpupool.environment.spec.yaml_source import parse_source
from gpupool.queue.simulate.changes import changed, changes
from gpupool.queue.simulate.numbers import numbers
from gpupool.queue.simulate.recommend import COARSE, Recommendations, better, busiest, recommend
from gpupool.queue.simulate.run import Settings
from gpupool.queue.simulate.trace import MONDAY, Arrival, Trace

POOR = Path(__file__).with_name("poor.yaml")
SETTINGS = Settings(numbers(()))
JOBS = Trace(
    tuple(
        Arrival(MONDAY + 120 * number, "vision", None, 0.2, None, 2400 + number % 7 * 60)
        for number in range(400)
    )
)


def recommended(file: Path, jobs: Trace = JOBS, budget_s: float = 600) -> Recommendations:
    return recommend(read_plan(str(file)), file, jobs, SETTINGS, budget_s)


def test_a_poor_layout_is_found_and_halves_waits_at_no_higher_cost(tmp_path: Path) -> None:
    result = recommended(POOR)
    assert result.tried == result.possible > 20
    best = result.proposals[0]
    assert best.change.field == "pools[models].sharing.layout"
    before, after = result.before.to_gpu.p95, best.figures.to_gpu.p95
    assert before is not None
    assert after is not None
    assert after < before / 2
    assert best.figures.usd <= result.before.usd
    assert best.figures.served_gpu_hours == result.before.served_gpu_hours
    assert "-    sharing: {mode: mig, layout: {3g.40gb: 2}}   # jobs ask for a fifth of a GPU" in best.patch
    assert "   # jobs ask for a fifth of a GPU" in best.patch.splitlines()[-2], "comments stay"
    assert "{3g.40gb: 2}" in POOR.read_text(encoding="utf-8"), "nothing is applied"
    file = tmp_path / "poor.yaml"
    plan = read_plan(str(POOR))
    file.write_text(changed("x", plan.text, best.change).text, encoding="utf-8")
    again = recommended(file)
    assert all(proposal.change.kind != "layout" for proposal in again.proposals)


def test_it_says_when_nothing_is_better() -> None:
    file = Path(__file__).parents[3] / "environments" / "homelab.yaml"
    tenant = read_plan(str(file)).tenants[0].name
    few = Trace((Arrival(MONDAY, tenant, None, 0.1, None, 60),))
    result = recommended(file, few)
    assert result.before.jobs == 1
    assert result.tried > 0
    assert result.proposals == ()


def test_the_budget_of_time_is_kept() -> None:
    times = iter(range(1000))
    plan = read_plan(str(POOR))
    result = recommend(plan, POOR, JOBS, SETTINGS, 3, clock=lambda: float(next(times)))
    assert result.tried == 3 < result.possible


def test_every_change_is_of_one_field_and_most_of_them_are_possible() -> None:
    for name in ("local", "prod", "homelab"):
        file = Path(__file__).parents[3] / "environments" / f"{name}.yaml"
        plan = read_plan(str(file))
        source = parse_source(str(file), plan.text.encode())
        tried = [change for change in changes(plan, source.data) if change.kind != "layout"]
        assert tried
        possible = 0
        for change in tried:
            result = changed(name, plan.text, change)
            text = result.text
            lines = result.patch.splitlines()[2:]
            assert sum(line.startswith("+") for line in lines) == 1, change
            assert sum(line.startswith("-") for line in lines) <= 1, change
            read = check_shape(parse_source(str(file), text.encode()))
            possible += not read.findings
            if not read.findings and change.kind == "warm":
                assert resolve(read).pool(change.of).warm == change.value
        assert possible > len(tried) // 2, name


def test_the_busiest_stretch() -> None:
    arrivals = [Arrival(float(at), "a", None, 1, None, 1) for at in [*range(0, 9000, 3), *range(9000, 11000)]]
    part = busiest(Trace(tuple(arrivals)), COARSE)
    assert len(part) == COARSE
    assert part[0].submitted == 9000


@pytest.mark.parametrize(
    ("waits", "usd", "served", "is_better"),
    [
        (0.5, 1.0, 1.0, True),
        (1.0, 0.9, 1.0, True),
        (0.5, 1.1, 1.0, False),
        (1.2, 0.5, 1.0, False),
        (0.1, 0.1, 0.9, False),
        (1.0, 1.0, 1.0, False),
    ],
)
def test_what_is_better(waits: float, usd: float, served: float, is_better: bool) -> None:
    before = recommended(POOR, budget_s=-1).before
    p95 = before.to_gpu.p95
    assert p95 is not None
    assert p95 > 60
    after = before.model_copy(
        update={
            "to_gpu": before.to_gpu.model_copy(update={"p95": p95 * waits}),
            "usd": before.usd * usd,
            "served_gpu_hours": before.served_gpu_hours * served,
        }
    )
    assert (better(before, after) is not None) is is_better
