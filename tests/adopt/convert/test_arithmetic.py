"""Amounts, times, maintenance windows and spreads: the arithmetic of conversions."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.adopt.convert import budgets
from gpupool.adopt.convert.account import ConversionAccount
from gpupool.adopt.convert.documents import Document
from gpupool.adopt.convert.pools import _share
from gpupool.adopt.convert.quantities import duration, quantity, seconds
from gpupool.adopt.convert.tenants import _spread
from gpupool.environment.plan.capacity import capacities, parse_window
from gpupool.environment.spec.field_types import duration_seconds
from gpupool.generators.node_pools import _closed
from tests.environment_strategies import windows


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("8", 8),
        (8, 8),
        ("1k", 1000),
        ("500m", Fraction(1, 2)),
        ("1.5Gi", 3 * 2**29),
        ("2e3", 2000),
        ("12E", 12 * 10**18),
        ("lots", None),
        ("-1", None),
        (True, None),
        ("", None),
        ([], None),
    ],
)
def test_quantities(text: object, number: object) -> None:
    assert quantity(text) == number


@given(st.integers(0, 10**7))
def test_durations_come_back(total: int) -> None:
    assert seconds(duration(total)) == total == duration_seconds(duration(total))


@pytest.mark.parametrize("text", ["", "10", "soon", "1.5h", "10ms", "1h ", None, 5])
def test_what_is_no_duration(text: object) -> None:
    assert seconds(text) is None


def read(rows: list[dict[str, object]], nodes: int = 10) -> tuple[int | None, str | None]:
    account = ConversionAccount([Document("x.yaml", {"budgets": rows}, None)])
    return budgets.read(list(account.parts[0].at("budgets").each()), nodes)


def test_a_budget_that_is_not_of_the_window_is_listed_beside_it() -> None:
    closed = {"nodes": "0", "schedule": "@daily", "duration": "22h"}
    account = ConversionAccount([Document("x.yaml", {"budgets": [closed, closed | {"nodes": "1"}]}, None)])
    assert budgets.read(list(account.parts[0].at("budgets").each()), 10) == (None, "daily 22:00-00:00 UTC")
    assert "budgets[1]" in {entry.path for entry in account.leftovers()}


@given(windows())
def test_a_window_comes_back_from_its_budgets(text: str) -> None:
    window = parse_window(text)
    closed = list(_closed(window))
    _, found = read(closed)
    assert found is not None
    assert parse_window(found) == window


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"nodes": "10%"}, (1, None)),
        ({"nodes": 3}, (3, None)),
        ({"nodes": "0"}, (None, None)),
        ({"nodes": "0", "schedule": "@daily", "duration": "22h"}, (None, "daily 22:00-00:00 UTC")),
        ({"nodes": "0", "schedule": "0 6 * * sun-sat", "duration": "20h"}, (None, "daily 02:00-06:00 UTC")),
        ({"nodes": "0", "schedule": "0 9 * * 1-5", "duration": "8h"}, (None, None)),
        ({"nodes": "0", "schedule": "0 9 1 * *", "duration": "8h"}, (None, None)),
        ({"nodes": "many"}, (None, None)),
    ],
)
def test_budgets(row: dict[str, object], expected: tuple[int | None, str | None]) -> None:
    assert read([row]) == expected


@given(st.integers(2, 200).flatmap(lambda total: st.tuples(st.just(total), st.integers(1, total - 1))))
def test_a_share_gives_the_nodes_that_it_was_made_of(sizes: tuple[int, int]) -> None:
    total, spot = sizes
    sides = {side.type: side.max_nodes for side in capacities("x", total, (1,), _share(spot, total, (1,)))}
    assert sides == {"spot": spot, "on-demand": total - spot}


@given(st.lists(st.integers(1, 50), min_size=1, max_size=6), st.data())
def test_a_quota_is_spread_whole_and_to_everybody(room: list[int], data: st.DataObject) -> None:
    takers = {f"p{number}": most for number, most in enumerate(room)}
    total = data.draw(st.integers(len(room), sum(room)))
    shares = _spread(total, takers, 1)
    assert sum(shares.values()) == total
    assert all(1 <= share <= takers[name] for name, share in shares.items())


def test_the_strictest_of_several_budgets_holds() -> None:
    assert read([{"nodes": "3"}, {"nodes": "1"}, {"nodes": "2"}]) == (1, None)
