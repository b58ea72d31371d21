"""The GPU Operator's values against NVIDIA's definition of the ClusterPolicy that its chart makes of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest
import yaml
from hypothesis import given

from gpupool.environment.plan import mig_strategy
from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.resolve import read_plan
from gpupool.environment.spec.load import environment_names
from gpupool.generators.gpu_operator import lacking, values
from tests.environment_files import Data, environment_data, plan_of
from tests.environment_strategies import environments
from tests.examples import examples
from tests.required_programs import require_module

CRD = "deployments/gpu-operator/crds/nvidia.com_clusterpolicies.yaml"
POOLS: dict[str, Data] = {
    "whole": {},
    "parted": {"gpu": "a100-80gb", "sharing": {"mode": "mig", "layout": {"3g.40gb": 2}}},
    "served": {"sharing": {"mode": "mps", "replicas": 4}},
}


@cache
def policy_schema() -> Mapping[str, Any]:
    folder = require_module("gpu-operator", "github.com/NVIDIA/gpu-operator")
    definition = yaml.load((folder / CRD).read_bytes(), Loader=yaml.CSafeLoader)
    (version,) = definition["spec"]["versions"]
    return dict(version["schema"]["openAPIV3Schema"]["properties"]["spec"])


def refused(value: Any, schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """What the server would refuse: the chart writes nothing, which is null, where a value is empty."""
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r} is none of {schema['enum']}"
    if value in (None, "") and ("enum" in schema or schema.get("type") in ("object", "array")):
        yield f"{path}: {value!r} is null where the chart writes it"
    if schema.get("type") == "object" and isinstance(value, Mapping):
        for key, inner in value.items():
            yield from refused(inner, schema.get("properties", {}).get(key, {}), f"{path}.{key}")


def test_the_reader_sees_what_the_chart_made_null() -> None:
    assert list(refused({"mig": {"strategy": ""}}, policy_schema()))
    assert list(refused({"mig": None}, policy_schema()))


@pytest.mark.parametrize("name", environment_names())
def test_the_definition_takes_every_value(name: str) -> None:
    assert not list(refused(values(read_plan(name)), policy_schema()))


@examples("environments", 60)
@given(environments())
def test_the_definition_takes_every_value_of_random_environments(environment: Data) -> None:
    assert not list(refused(values(plan_of(environment)), policy_schema()))


def plan(*names: str, **changes: Any) -> Plan:
    rows = [
        {"name": name, "gpu": "t4", "nodes": {"names": [name]}, **POOLS[name], **changes} for name in names
    ]
    return plan_of(environment_data("static", pools=rows))


@pytest.mark.parametrize(
    ("pools", "strategy", "own_start"),
    [
        (["whole", "served"], "none", False),
        (["whole", "parted"], "mixed", False),
        (["parted", "served"], "mixed", True),  # a plugin with MPS does not start with mixed
    ],
)
def test_the_strategy_leaves_each_pool_its_own(pools: list[str], strategy: str, own_start: bool) -> None:
    made = plan(*pools)
    chosen = values(made)
    assert chosen["mig"] == {"strategy": strategy}
    assert ("args" in chosen["devicePlugin"]) == own_start
    assert not any(mig_strategy.overridden(pool, chosen) for pool in made.pools)


@pytest.mark.parametrize("strategy", ["", "none", "single", "mixed"])
def test_which_strategy_of_others_undoes_a_pool(strategy: str) -> None:
    made = plan("whole", "parted", "served")
    undone = [
        pool.name for pool in made.pools if mig_strategy.overridden(pool, {"mig": {"strategy": strategy}})
    ]
    assert undone == {"": [], "mixed": ["served"]}.get(strategy, ["parted"])


def test_what_the_owner_of_an_operator_has_to_set() -> None:
    assert lacking(plan("whole", taints=[])) == {}
    made = plan("whole", "parted", taints=[{"key": "gpu", "value": "a", "effect": "NoSchedule"}])
    wanted = lacking(made)
    assert wanted["mig"] == {"strategy": "mixed"}
    assert {"key": "gpu", "operator": "Exists"} in wanted["daemonsets"]["tolerations"]
    assert wanted["node-feature-discovery"]["worker"]["tolerations"]
    assert lacking(made, wanted) == {}
    everything = {"mig": {}, "daemonsets": {"tolerations": [{"operator": "Exists"}]}}
    assert lacking(made, everything) == {}


def test_another_pool_changes_a_name_alone() -> None:
    one, two = values(plan("whole")), values(plan("whole", "served"))
    assert one.pop("devicePlugin") != two.pop("devicePlugin")
    for key in ("driver", "daemonsets", "node-feature-discovery", "mig"):
        assert one[key] == two[key]
