"""Nodes that join during a repartition: what they are to offer when they go back, known or not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given

from gpupool.environment.plan.model import Plan, Pool
from gpupool.generators import generate
from gpupool.live.repartition import configs, messages
from gpupool.live.repartition.configs import held_key
from gpupool.live.repartition.joining_nodes import new_shape, old_shape
from gpupool.live.repartition.journal import Journal
from gpupool.live.repartition.preparation import task_for
from gpupool.live.repartition.shapes import LiveNode, Mark, Shape, wanted
from gpupool.live.repartition.steps import Act, NodeAction, RepartitionLimits, Task, decide
from gpupool.live.repartition.watch import Watch
from tests.environment_files import Data, environment_data, plan_of
from tests.environment_strategies import environments
from tests.examples import examples

JOINED = LiveNode(
    "late", True, True, Mark(False, back=True), "pool", "2x3g", "success", {"nvidia.com/gpu": 9}, None
)
UNKNOWN = Shape("pool", "2x3g", {})
RULES = RepartitionLimits(1, may_begin=False, evict=False)


def journal(plan: Plan, pool: Pool, before: dict[str, Any] | None = None, hold: bool = False) -> Journal:
    """A repartition that has begun where `plan` was applied: its settings are the earlier ones."""
    settings = configs.of_bundle(generate(plan))
    mig = {"config.yaml": _layouts(plan)} if settings.layouts else None
    kept = {"plugin": {"name": "p", "data": dict(settings.plugin)}, "mig": mig and {"name": "m", "data": mig}}
    plugin = held_key(pool.name) if hold else pool.name
    first = Shape(plugin, pool.mig_config, {"nvidia.com/gpu": 1})
    return Journal("e", pool.name, "now", "t", hold, {"first": first}, {}, before=kept | (before or {}))


def _layouts(plan: Plan) -> str:
    return next(
        str(manifest.body["data"]["config.yaml"])
        for manifest in generate(plan)
        if manifest.kind == "ConfigMap" and manifest.name.startswith(configs.MIG_PREFIX)
    )


@examples("repartition", 25)
@given(environments())
def test_the_earlier_settings_mean_what_the_plan_meant(environment: Data) -> None:
    """For every way to share and every size of machine, whatever the neighbours offered."""
    plan = plan_of(environment)
    assume(plan.uses_gpu_operator)  # else there are no settings of gpupool's on nodes
    for pool in plan.pools:
        for machine in pool.machines:
            node = replace(JOINED, machine=machine.instance_type)
            asked = wanted(pool, machine.instance_type)
            assert old_shape(journal(plan, pool), pool, node) == asked
            held = old_shape(journal(plan, pool, hold=True), pool, node)
            assert held == replace(asked, plugin=held_key(pool.name)), "the key of the old settings by now"
            assert new_shape(journal(plan, pool), pool, node) == asked


@examples("repartition", 25)
@given(environments(), environments())
def test_the_new_shape_is_the_one_that_was_begun(environment: Data, another: Data) -> None:
    """Taken back by a file that says something else by now, a node still has what it was given."""
    plan, other = plan_of(environment), plan_of(another)
    assume(plan.uses_gpu_operator)
    for pool in plan.pools:
        given_text = configs.of_bundle(generate(plan))
        layouts = {pool.mig_config: (given_text.layouts or {})[pool.mig_config]} if pool.mig_config else None
        after = {"plugin": given_text.plugin[pool.name], "layouts": layouts}
        begun = replace(journal(plan, pool), after=after, backwards=True)
        for by_now in other.pools:
            changed = replace(pool, sharing=by_now.sharing, mig_config=by_now.mig_config)
            for machine in pool.machines:
                node = replace(JOINED, machine=machine.instance_type)
                assert new_shape(begun, changed, node) == wanted(pool, machine.instance_type)


PARTED: Data = environment_data(
    "local",
    pools=[
        {
            "name": "pool",
            "gpu": "a100-80gb",
            "sharing": {"mode": "mig", "layout": {"3g.40gb": 2}},
            "nodes": {"instanceTypes": ["p4de.24xlarge"], "max": 2},
        }
    ],
)


def _settings(plugin: str, *layouts: Any) -> dict[str, Any]:
    text = configs.yaml_text({"version": "v1", "mig-configs": dict.fromkeys(["2x3g.40gb"], *layouts)})
    mig = {"name": "m", "data": {"config.yaml": text}} if layouts else None
    return {"plugin": {"name": "p", "data": {"pool": plugin}}, "mig": mig}


@pytest.mark.parametrize(
    ("mig", "before", "machine"),
    [
        ("2x3g.40gb", {}, "p4d.24xlarge"),
        ("2x3g.40gb", _settings("version: v1"), "p4de.24xlarge"),
        ("2x3g.40gb", _settings("", None), "p4de.24xlarge"),
        ("2x3g.40gb", _settings("", [{"devices": [0], "mig-enabled": True, "mig-devices": {}}]), None),
        (
            "2x3g.40gb",
            _settings("", [{"devices": "all", "mig-enabled": True, "mig-devices": {"x": "y"}}]),
            None,
        ),
        (None, _settings("{"), "p4de.24xlarge"),
        (None, _settings("sharing: {timeSlicing: {resources: []}}"), "p4de.24xlarge"),
        (None, _settings("- nothing"), "p4de.24xlarge"),
        (None, {"plugin": {"name": "p", "data": {}}}, "p4de.24xlarge"),
    ],
)
def test_what_cannot_be_known_is_not_made_up(
    mig: str | None, before: dict[str, Any], machine: str | None
) -> None:
    """Other machines than the file's, and settings that somebody has written in gpupool's place."""
    plan = plan_of(PARTED)
    pool = plan.pool("pool")
    begun = replace(journal(plan, pool, before), old={"first": Shape("pool", mig, {"nvidia.com/gpu": 1})})
    node = replace(JOINED, machine=machine or "p4de.24xlarge")
    assert old_shape(begun, pool, node) == Shape("pool", mig, {})
    assert task_for(begun, pool, [node], []).old == {"late": Shape("pool", mig, {})}


def test_without_nodes_the_template_has_the_old_layout() -> None:
    """The file's own layout is the new one; and the pool's key has the new settings where nodes are held."""
    plan = plan_of(PARTED)
    pool = replace(plan.pool("pool"), mig_config="7x1g.10gb")
    (template,) = (one.body["spec"]["template"] for one in generate(plan) if one.kind == "NodePool")
    begun = journal(plan, pool, {"karpenter": {"pools": {"pool": {"spec": {"template": template}}}}})
    node = replace(JOINED, machine="p4de.24xlarge")
    slices = {"nvidia.com/mig-3g.40gb": 16}
    assert old_shape(replace(begun, old={}), pool, node) == Shape("pool", "2x3g.40gb", slices)
    held = replace(begun, old={}, hold=True)
    assert old_shape(held, pool, node) == Shape("pool.previous", "2x3g.40gb", slices)


def test_a_success_from_before_the_relabelling_is_not_believed() -> None:
    """Where the slices are not known, nothing else shows which layout the MIG manager means."""
    task = Task({"late": Shape("pool", "7x1g", {"nvidia.com/mig-1g.10gb": 7})}, {"late": UNKNOWN}, ["late"])
    watch = Watch(timeout=600.0, settle=30.0)

    def acts(node: LiveNode, clock: float) -> list[Act]:
        decision = decide([node], task, RULES, watch.observe([node], task, clock))
        assert decision.actions or "late" in decision.waits
        return [action.act for action in decision.actions]

    stale = replace(JOINED, slices={"nvidia.com/mig-1g.10gb": 7})
    at_work = replace(JOINED, mig_state="pending")
    assert acts(replace(stale, mig="7x1g"), 0.0) == [Act.relabel]
    assert acts(stale, 1.0) == []
    assert acts(stale, 25.0) == []
    assert acts(at_work, 26.0) == []
    assert acts(JOINED, 27.0) == []
    assert acts(JOINED, 50.0) == [], "it counts from when the manager was last seen at work"
    assert acts(JOINED, 58.0) == [Act.end]


def test_a_failure_is_not_passed_over_where_no_slices_can_decide() -> None:
    task = Task({"late": Shape("pool", "7x1g", {"nvidia.com/mig-1g.10gb": 7})}, {"late": UNKNOWN}, ["late"])
    for slices, lost in (({"nvidia.com/mig-1g.10gb": 7}, True), ({}, False)):
        watch = Watch(timeout=600.0, settle=30.0)
        node = replace(JOINED, mig_state="failed", slices=slices)
        watch.observe([node], task, 0.0)
        assert ("late" in watch.observe([node], task, 31.0).lost) == lost, (
            "with nothing to give it takes no jobs"
        )


def test_an_unknown_old_shape_is_not_called_nothing() -> None:
    assert messages.step(NodeAction(Act.relabel, "late", UNKNOWN)) == "change to its old shape on late"
    known = replace(UNKNOWN, slices={"nvidia.com/mig-3g.40gb": 2})
    assert messages.step(NodeAction(Act.relabel, "late", known)) == "change to 2 mig-3g.40gb on late"
