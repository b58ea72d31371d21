"""The settings of the GPU Operator that gpupool owns, as they can be written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.environment.plan.owned_settings import given_variables, owned_variables, undoing

ALL = [
    (operand, name, owned)
    for owned in owned_variables()
    for operand in owned.operands
    for name in (*owned.variables, *(f"--{argument}" for argument in owned.arguments))
]


@pytest.mark.parametrize(("operand", "name", "owned"), ALL, ids=lambda value: str(value)[:60])
@given(before=st.lists(st.sampled_from(["--kubelet-socket=x", "--oneshot", "--sleep-interval", "5s"])))
def test_each_is_found_however_it_is_written(operand: str, name: str, owned: Any, before: list[str]) -> None:
    platform = owned.platforms[0] if owned.platforms else None
    if name.startswith("-"):
        last = len(before)
        written = [
            ({"args": [*before, f"{name}=other"]}, ((operand, "args", last),)),
            ({"args": [*before, name, "other"]}, ((operand, "args", last), (operand, "args", last + 1))),
            ({"args": [*before, name]}, ((operand, "args", last),)),
        ]
        if before and before[-1] == "--sleep-interval":
            written = []  # the name would be its value
    else:
        row = {"name": name, "value": "other"}
        written = [
            ({"env": [{"name": "OTHER", "value": name}, row]}, ((operand, "env", 1),)),
            ({"env": [{"name": name, "valueFrom": {}}]}, ((operand, "env", 0),)),
            ({"env": {name: "other"}}, ((operand, "env", name),)),
        ]
    for settings, locs in written:
        (setting,) = given_variables({operand: settings}, platform)
        assert (setting.locs, setting.same) == (locs, False)


def test_what_is_said_alike_is_no_contradiction() -> None:
    env = [{"name": "DEVICE_LIST_STRATEGY", "value": "volume-mounts"}]
    (setting,) = given_variables({"devicePlugin": {"env": env}}, "eks")
    assert setting.same


def test_some_are_the_users_where_gpupool_does_not_set_them() -> None:
    image = {"toolkit": {"enabled": False}, "devicePlugin": {"env": [{"name": "DEVICE_LIST_STRATEGY"}]}}
    assert list(given_variables(image, "eks")) == []
    reboot = {"migManager": {"env": [{"name": "WITH_REBOOT", "value": "false"}]}}
    assert list(given_variables(reboot, "static")) == []
    assert [setting.name for setting in given_variables(reboot, "eks")] == ["migManager.env WITH_REBOOT"]


def test_a_strategy_undoes_partitioned_pools_alone() -> None:
    settings = {
        "mig": {"strategy": "single"},
        "gfd": {"enabled": False},
        "devicePlugin": {"enabled": True, "env": [{"name": "MIG_STRATEGY", "value": "none"}]},
        "migManager": {"args": ["-f", "/mine.yaml"]},
    }
    names = [setting.name for setting in undoing(settings, partitioned=True)]
    assert names == ["mig.strategy", "gfd.enabled", "devicePlugin.env MIG_STRATEGY", "migManager.args -f"]
    assert list(undoing(settings, partitioned=False)) == []
    assert [s.name for s in undoing({"devicePlugin": {"enabled": False}}, False)] == ["devicePlugin.enabled"]


@pytest.mark.parametrize(
    "settings", [None, [], {"devicePlugin": []}, {"devicePlugin": {"env": "x", "args": "y"}}]
)
def test_what_is_no_settings_has_none(settings: Any) -> None:
    assert list(given_variables(settings, None)) == []


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"sandboxWorkloads": {"enabled": True, "defaultWorkload": "vm-passthrough"}}, ["defaultWorkload"]),
        ({"sandboxWorkloads": {"enabled": False, "defaultWorkload": "vm-passthrough"}}, []),
        ({"sandboxWorkloads": {"enabled": True, "defaultWorkload": "container"}}, []),
        ({"migManager": {"enabled": "false"}}, ["enabled"]),
        ({"migManager": {"enabled": True}}, []),
        ({"gfd": {"enabled": False}}, ["enabled"]),
        (
            {"devicePlugin": {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "0,1"}]}},
            ["VISIBLE_DEVICES"],
        ),
        ({"devicePlugin": {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}}, []),
    ],
)
def test_what_undoes_partitioned_pools(settings: dict[str, Any], names: list[str]) -> None:
    found = [setting.name for setting in undoing(settings, partitioned=True)]
    assert len(found) == len(names)
    assert all(name.endswith(end) for name, end in zip(found, names, strict=True))
