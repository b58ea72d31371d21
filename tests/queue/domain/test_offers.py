"""What a request may have of environments/local.yaml, and what it is refused with."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.resolve import resolve
from gpupool.environment.spec.load import load
from gpupool.queue.domain.offers import GpuRequest, UnservableRequest, offers
from gpupool.queue.domain.recommend import recommend, reserved_hint
from gpupool.queue.domain.supply import supply_of
from gpupool.queue.records import MICRO

LOCAL = Path(__file__).parents[3] / "environments" / "local.yaml"


@functools.cache
def plan() -> Plan:
    return resolve(load(LOCAL))


def made(tenant: str = "vision", **wish: object) -> list[tuple[str, int, int]]:
    """(pool, units, gpu_micro) of each offer."""
    rule = next(one for one in plan().tenants if one.name == tenant)
    found = offers(plan(), supply_of(plan()), rule, GpuRequest(**wish))
    return [(offer.pool, offer.units, offer.gpu_micro) for offer in found]


def refused(tenant: str = "vision", **wish: object) -> UnservableRequest:
    with pytest.raises(UnservableRequest) as error:
        made(tenant, **wish)
    return error.value


def test_a_shared_job_takes_a_slice() -> None:
    assert made(pool="t4", isolation="shared") == [("notebooks", 1, MICRO // 8)]
    assert made(pool="notebooks") == [("notebooks", 1, MICRO // 8)]


def test_an_exclusive_job_on_a_time_sliced_node_takes_all_its_slices() -> None:
    assert made(pool="t4", isolation="exclusive") == [("notebooks", 8, MICRO)]


def test_a_time_sliced_pool_brings_its_fallbacks_and_partitions_never_mix() -> None:
    assert [pool for pool, *_ in made(pool="research-a100")] == ["research-a100", "research-h100"]
    assert {pool for pool, *_ in made("serving", pool="mig")} == {"inference-mig"}
    assert made("serving", pool="3g.40gb") == [("inference-mig", 1, MICRO // 2)]


def test_auto_is_the_cheapest_that_fits() -> None:
    assert made(pool="auto")[0][0] == "notebooks"
    assert made(pool="auto", gpu_count=2)[0] == ("training", 2, 2 * MICRO)


def test_the_example_of_the_sdk_fits() -> None:
    (offer,) = made(pool="auto", gpu_type="a100-80gb", gpu_count=4)
    assert offer[1:] == (4, 4 * MICRO)


@pytest.mark.parametrize(
    ("wish", "type", "names"),
    [
        ({"pool": "nothing"}, "pool-not-found", "research-a100"),
        ({"pool": "inference-mig"}, "pool-not-granted", "inference-mig"),
        ({"pool": "research-a100", "isolation": "exclusive"}, "exclusive-not-possible", "training"),
        ({"pool": "batch-a10g", "isolation": "exclusive"}, "exclusive-not-possible", "training"),
        ({"pool": "research-a100", "gpu_count": 2}, "gpus-not-possible", "training"),
        ({"pool": "training", "gpu_count": 8}, "does-not-fit", "granted 4"),
        ({"pool": "training", "gpu_count": 3000}, "gpus-not-possible", "training"),
    ],
)
def test_what_can_never_run_is_refused_with_what_would(wish, type, names) -> None:
    error = refused(**wish)
    assert error.type == type
    assert names in error.detail


def test_a_recommendation_is_the_cheapest_pool_with_enough_memory() -> None:
    vision = next(one for one in plan().tenants if one.name == "vision")
    found = recommend(plan(), supply_of(plan()), vision, 20, "training")
    assert found
    assert all(one.memory_gib >= 20 for one in found)
    assert [one.offer.rate_micro for one in found] == sorted(one.offer.rate_micro for one in found)
    isolated = [one.isolated for one in recommend(plan(), supply_of(plan()), vision, 1, "inference")]
    assert isolated == sorted(isolated, reverse=True)
    with pytest.raises(ValueError, match="kind 'nap' is none of training"):
        recommend(plan(), supply_of(plan()), vision, 1, "nap")


@pytest.mark.parametrize("path", sorted(LOCAL.parent.glob("*.yaml")), ids=lambda path: path.stem)
def test_what_is_recommended_is_not_refused(path: Path) -> None:
    plan = resolve(load(path))
    supply = supply_of(plan)
    for tenant in plan.tenants:
        for gpus in (1, 2):
            for one in recommend(plan, supply, tenant, 1, "inference", gpus):
                offer = one.offer
                assert offer.units <= tenant.grants[offer.pool].get(offer.resource, 0)
                profile = offer.resource.removeprefix("nvidia.com/mig-")
                name = offer.pool if offer.key != "mig" else profile
                isolation = "exclusive" if offer.units > offer.request else None
                assert offer in offers(plan, supply, tenant, GpuRequest(name, isolation, None, gpus))


def test_reserved_capacity_is_suggested_where_it_is_cheaper() -> None:
    assert reserved_hint(300, 10.0) is None
    assert "would save about $2,190 a month" in (reserved_hint(657, 10.0) or "")
