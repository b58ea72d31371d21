"""What a preview says of the operator's pods, from the state of an earlier `up`."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from gpupool.generators import generate
from gpupool.generators.manifest import Bundle
from gpupool.infra.operator_changes import notes
from gpupool.live.objects.resource_values import logical_name, properties, release_properties
from tests.environment_files import Data, environment_data, plan_of

ENVIRONMENT = environment_data("static", pools=[{"name": "one", "gpu": "t4", "nodes": {"names": ["n1"]}}])
PLUGIN = (
    "`up` restarts the operator's device plugin, GPU feature discovery, MPS control daemon on every GPU "
    "node, one node at a time (devicePlugin.config.name changes)"
)
OTHERS = (
    "container toolkit, validator, device plugin, GPU feature discovery, MPS control daemon, MIG manager, "
    "DCGM, DCGM exporter"
)
TAINT: Data = {"pools": [{**ENVIRONMENT["pools"][0], "taints": [{"key": "gpu", "effect": "NoSchedule"}]}]}
MORE: Data = {"pools": [*ENVIRONMENT["pools"], {"name": "two", "gpu": "l4", "nodes": {"names": ["n2"]}}]}
BY_HAND: Data = {"values": {"driver": {"upgradePolicy": {"autoUpgrade": False}}}}


def bundle(changes: Data, operator: Data | None = None) -> Bundle:
    return generate(plan_of({**deepcopy(ENVIRONMENT), **changes, "gpuOperator": operator or {}}))


def deployment(made: Bundle) -> dict[str, Any]:
    """The state after `up` applied `made`."""
    rows = [(f"Release/{release.name}", release_properties(release)) for release in made.releases]
    rows += [(logical_name(manifest), properties(manifest)) for manifest in made]
    return {"resources": [{"urn": f"urn:pulumi:x::gpupool::t::{name}", "inputs": row} for name, row in rows]}


def said(changes: Data, before: Data | None = None, after: Data | None = None) -> list[str]:
    return list(notes(deployment(bundle({}, before)), bundle(changes, after or before)))


def test_another_pool_restarts_the_plugin_and_cordons_nothing() -> None:
    assert said(MORE) == [PLUGIN]


def test_nothing_restarts_where_nothing_changes_or_nothing_is_known() -> None:
    assert said({}) == []
    assert list(notes({}, bundle({}))) == []


@pytest.mark.parametrize(
    ("operator", "effect"),
    [
        ({}, "restarts in place, 1 node at a time, cordoned for that time; running pods stay"),
        ({"version": "v25.3.2"}, "and its node stays cordoned (upgrade-failed)"),
        (BY_HAND, "no node is cordoned, and a driver pod applies the change when it is deleted"),
    ],
)
def test_another_toleration_restarts_everything(operator: Data, effect: str) -> None:
    driver, others = said(TAINT, operator)
    assert driver.startswith("`up` restarts the operator's driver on every GPU node (daemonsets.tolerations ")
    assert driver.endswith(effect)
    assert others.startswith(f"`up` restarts the operator's {OTHERS} on every GPU node")


def test_a_driver_that_the_image_brings_is_not_restarted() -> None:
    (others,) = said(TAINT, {"driver": {"enabled": False}})
    assert OTHERS in others


def test_another_driver_is_an_upgrade() -> None:
    (driver,) = said({}, {}, {"driver": {"version": "580.126.20"}})
    assert "(driver.version changes)" in driver
    assert "deletes the pods that use its GPUs" in driver


def test_another_release_is_for_the_report() -> None:
    (note,) = said(TAINT, {"version": "v26.3.3"}, {"version": "v26.7.0"})
    assert "from v26.3.3 to v26.7.0" in note


def test_the_settings_of_an_operator_of_somebody_elses() -> None:
    assert said(MORE, {"install": False}) == [PLUGIN]
