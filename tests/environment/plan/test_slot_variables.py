"""The counts of slots that older consumers read."""

from __future__ import annotations

from gpupool.environment.plan.resolve import read_plan
from gpupool.environment.plan.slot_variables import slot_variables
from tests.environment_files import Data, environment_data, plan_of


def variables(*pools: Data) -> dict[str, str]:
    data = environment_data("local", pools=[{"name": f"p{at}", **pool} for at, pool in enumerate(pools)])
    return dict(slot_variables(plan_of(data).pools))


def test_shared_and_exclusive_slots_of_each_kind_of_pool() -> None:
    sliced = {"mode": "time-slicing", "replicas": 8}
    one = {"gpu": "t4", "sharing": sliced, "nodes": {"instanceTypes": ["g4dn.xlarge"], "max": 3}}
    mixed = {
        "gpu": "t4",
        "sharing": sliced,
        "nodes": {"instanceTypes": ["g4dn.xlarge", "g4dn.12xlarge"], "maxGpus": 4},
    }
    whole = {"gpu": "t4", "nodes": {"instanceTypes": ["g4dn.12xlarge"], "max": 2}}
    mps = {**one, "sharing": {"mode": "mps", "replicas": 4}}
    found = variables(one, mixed, whole, mps)
    assert found["T4_SHARED_SLOTS"] == str(3 * 8 + 4 * 8 + 3 * 4)
    assert found["T4_EXCLUSIVE_SLOTS"] == str(3 + 2 * 4)
    assert found["MIG_TOTAL_SLOTS"] == "0"


def test_mig_instances_are_counted_over_all_pools() -> None:
    parted = {
        "gpu": "a100-80gb",
        "sharing": {"mode": "mig", "layout": {"3g.40gb": 1, "2g.20gb": 2}},
        "nodes": {"instanceTypes": ["p4de.24xlarge"], "max": 2},
    }
    assert variables(parted) == {"GPU_RESOURCE_NAME": "nvidia.com/gpu", "MIG_TOTAL_SLOTS": str(2 * 8 * 3)}


def test_names_are_those_of_shell_variables_and_sorted() -> None:
    found = slot_variables(read_plan("local").pools)
    assert list(found) == sorted(found)
    assert all(name.isidentifier() and name.isupper() for name in found)
    assert found["A100_80GB_EXCLUSIVE_SLOTS"] == "8"
