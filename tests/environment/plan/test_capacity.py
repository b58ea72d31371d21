"""The arithmetic between words and numbers: spot shares, machines and prices, grants, windows, cost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.environment.catalog.load import load_catalog
from gpupool.environment.catalog.models import CatalogError
from gpupool.environment.plan.capacity import capacities, grant_slices, machines, parse_window, sharing_of
from gpupool.environment.plan.model import Pool
from gpupool.environment.plan.pool_cost import HOURS_PER_MONTH, MonthlyCost, monthly_cost
from gpupool.environment.spec import environment as spec
from gpupool.environment.spec import tenants as spec_tenants
from tests.environment_files import environment_data, plan_of
from tests.environment_strategies import windows

CATALOG = load_catalog()


@given(
    st.integers(1, 500),
    st.sampled_from([(1,), (8,), (1, 4), (4, 8), (1, 4, 8)]),
    st.floats(0, 1, allow_nan=False),
)
def test_a_spot_share_is_kept_by_two_bounds(nodes: int, sizes: tuple[int, ...], share: float) -> None:
    smallest, largest = min(sizes), max(sizes)
    gpus = nodes * smallest
    sides = capacities("pool", gpus, sizes, share)
    assert sum(side.max_gpus for side in sides) == gpus
    assert all(side.max_gpus == side.max_nodes * smallest >= smallest for side in sides)
    spot = sum(side.max_gpus for side in sides if side.type == "spot")
    assert abs(spot - gpus * share) <= max(largest, smallest)
    if 0 < share < 1 and gpus >= 2 * largest:
        assert {side.type for side in sides} == {"spot", "on-demand"}
        assert all(side.max_gpus >= largest for side in sides)
    assert len({side.name for side in sides}) == len(sides)


@pytest.mark.parametrize(
    ("nodes_max", "share", "expected"),
    [
        (4, 0, {"pool": ("on-demand", 4)}),
        (4, 1, {"pool": ("spot", 4)}),
        (4, 0.75, {"pool": ("on-demand", 1), "pool-spot": ("spot", 3)}),
        (2, 0.01, {"pool": ("on-demand", 1), "pool-spot": ("spot", 1)}),
        (2, 0.99, {"pool": ("on-demand", 1), "pool-spot": ("spot", 1)}),
        (10, 0.7, {"pool": ("on-demand", 3), "pool-spot": ("spot", 7)}),
    ],
)
def test_spot_shares(nodes_max: int, share: float, expected: dict[str, tuple[str, int]]) -> None:
    made = capacities("pool", nodes_max * 8, (8,), share)
    assert {capacity.name: (capacity.type, capacity.max_nodes) for capacity in made} == expected


def test_spot_goes_first() -> None:
    weights = {capacity.type: capacity.weight for capacity in capacities("pool", 4, (1,), 0.5)}
    assert weights["spot"] > weights["on-demand"]


def nodes(**fields: object) -> spec.Nodes:
    return spec.Nodes.model_validate(fields)


def test_prices_come_from_the_catalog_unless_given() -> None:
    t4, whole = CATALOG["t4"], sharing_of(spec.Exclusive(mode="exclusive"))
    row = t4.instance_type("g4dn.xlarge")
    (listed,) = machines(t4, whole, nodes(instanceTypes=["g4dn.xlarge"]), static=False)
    assert (listed.usd_per_hour, listed.spot_usd_per_hour) == (row.usd_per_hour, row.spot_usd_per_hour)
    own = {"instanceTypes": ["g4dn.xlarge"], "usdPerHour": {"onDemand": 1.0}}
    (given_price,) = machines(t4, whole, nodes(**own), static=False)
    assert (given_price.usd_per_hour, given_price.spot_usd_per_hour) == (1.0, row.spot_ratio)
    own["usdPerHour"] = {"spot": 0.5}
    (given_spot,) = machines(t4, whole, nodes(**own), static=False)
    assert (given_spot.usd_per_hour, given_spot.spot_usd_per_hour) == (row.usd_per_hour, 0.5)


def test_a_machine_with_another_gpu_is_refused() -> None:
    with pytest.raises(CatalogError, match="does not have"):
        machines(
            CATALOG["t4"],
            sharing_of(spec.Exclusive(mode="exclusive")),
            nodes(instanceTypes=["p5.48xlarge"]),
            False,
        )


def pool(**fields: object) -> Pool:
    made = {
        "name": "p",
        "gpu": "a100-80gb",
        "nodes": {"instanceTypes": ["p4de.24xlarge"], "max": 2},
        **fields,
    }
    return plan_of(environment_data("local", pools=[made])).pools[0]


def grant(**fields: object) -> spec_tenants.Grant:
    return spec_tenants.Grant.model_validate(fields)


def test_grants_in_every_mode() -> None:
    shared = pool(sharing={"mode": "time-slicing", "replicas": 3})
    assert grant_slices(shared, grant(gpus=6)) == {"nvidia.com/gpu": 18}
    assert grant_slices(shared, grant(slices=6)) == {"nvidia.com/gpu": 6}
    parted = pool(sharing={"mode": "mig", "layout": {"3g.40gb": 1, "2g.20gb": 2}})
    assert grant_slices(parted, grant(gpus=2)) == {"nvidia.com/mig-3g.40gb": 2, "nvidia.com/mig-2g.20gb": 4}
    assert grant_slices(parted, grant(profiles={"3g.40gb": 5})) == {"nvidia.com/mig-3g.40gb": 5}
    with pytest.raises(CatalogError, match="no MIG profile"):
        grant_slices(parted, grant(profiles={"9g.90gb": 1}))


def test_equivalents_of_a_layout() -> None:
    parted = pool(sharing={"mode": "mig", "layout": {"3g.40gb": 1, "2g.20gb": 2}})
    assert {name: float(share) for name, share in parted.equivalents.items()} == {
        "nvidia.com/mig-3g.40gb": 0.5,
        "nvidia.com/mig-2g.20gb": 0.25,
    }


def test_cost_from_the_warm_floor_to_the_maximum() -> None:
    price = {"usdPerHour": {"onDemand": 10.0, "spot": 3.0}}
    machine = {"instanceTypes": ["p4de.24xlarge"], "max": 4, **price}
    ten, all_four = 10 * HOURS_PER_MONTH, 4 * 10 * HOURS_PER_MONTH
    assert monthly_cost(pool(nodes=machine)) == MonthlyCost(0, 0, all_four)
    assert monthly_cost(pool(nodes={**machine, "warm": 1})) == MonthlyCost(ten, ten, all_four)
    mixed = monthly_cost(pool(nodes={**machine, "warm": 3, "spotShare": 0.5}))
    assert mixed is not None
    assert mixed.ceiling == (2 * 10 + 2 * 3) * HOURS_PER_MONTH
    assert mixed.floor == (2 * 10 + 1 * 3) * HOURS_PER_MONTH, "warm nodes count as on-demand ones first"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sometimes", "not of the form"),
        ("Sat 02:00-06:00", "not of the form"),
        ("Sat 2:00-6:00 UTC", "not of the form"),
        ("Sut 02:00-06:00 UTC", "Sut is not a weekday"),
        ("Sat 24:00-06:00 UTC", "24:00 is not a time"),
        ("Sat 02:60-06:00 UTC", "02:60 is not a time"),
        ("Sat 02:00-02:00 UTC", "opens and closes"),
        ("Sat 02:00-06:00 UTC\n", "not of the form"),
        ("Sat \u0660\u0662:00-06:00 UTC", "not of the form"),
    ],
)
def test_windows_that_are_none(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_window(text)


def test_windows() -> None:
    daily = parse_window("daily 01:00-03:30 UTC")
    assert (daily.weekdays, daily.start_minute, daily.minutes) == (tuple(range(7)), 60, 150)
    late = parse_window("Mon,Sun 22:00-02:00 UTC")
    assert (late.weekdays, late.start_minute, late.minutes) == ((0, 1), 1320, 240)


@given(windows())
def test_every_window_is_open_for_less_than_a_day(text: str) -> None:
    window = parse_window(text)
    assert 0 < window.minutes < 1440
    assert window.weekdays


def test_generic_is_another_word_for_static() -> None:
    environment = environment_data(
        "generic",
        gpuOperator={"install": False},
        pools=[{"name": "desk", "gpu": "rtx-4090", "nodes": {"names": ["lab-0"]}}],
    )
    assert plan_of(environment).cluster.platform == "static"
