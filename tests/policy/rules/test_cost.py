"""The ceiling of an environment's cost: from the file to the finding."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.environment.plan.resolve import read_plan
from gpupool.environment.spec.tenants import Budget
from gpupool.findings import SpecError
from gpupool.policy.rules.cost import monthly
from tests.policy.rules.drafts import draft_of

PROD = Path(__file__).parents[3] / "environments" / "prod.yaml"


def _with_cost(folder: Path, section: str) -> str:
    path = folder / "prod.yaml"
    path.write_text(f"{PROD.read_text(encoding='utf-8')}\n{section}\n", encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("ceiling", "rules"),
    [
        ("525000", set()),
        ("520000.5", {"budgets-within-ceiling"}),
        ("500000", {"budgets-within-ceiling", "cost-within-ceiling"}),
        ("0", {"budgets-within-ceiling", "cost-within-ceiling"}),
    ],
)
def test_ceiling_in_the_file_is_kept(tmp_path: Path, ceiling: str, rules: set[str]) -> None:
    plan = read_plan(_with_cost(tmp_path, f"cost: {{monthlyUsdMax: {ceiling}}}"))
    assert plan.monthly_usd_max == float(ceiling)
    assert {finding.rule for finding in draft_of(plan).findings()} == rules


def test_without_a_ceiling_nothing_is_too_dear() -> None:
    plan = read_plan(str(PROD))
    assert plan.monthly_usd_max is None


@pytest.mark.parametrize("wrong", ["-1", '"much"', ".inf"])
def test_ceiling_is_an_amount(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(SpecError, match=r"cost\.monthlyUsdMax"):
        read_plan(_with_cost(tmp_path, f"cost: {{monthlyUsdMax: {wrong}}}"))


@given(st.floats(0, 1e9, allow_nan=False))
def test_budgets_of_all_periods_are_one_rate(usd: float) -> None:
    """A month has 730 hours, hence 30.4 days and 4.3 weeks."""
    day, week = (monthly(Budget(usd=usd, period=period)) for period in ("day", "week"))
    assert day == pytest.approx(usd * 730 / 24, abs=0.01)
    assert week == pytest.approx(day / 7, abs=0.02)
    assert monthly(Budget(usd=usd)) == pytest.approx(usd, abs=0.01)
