"""Runs that are killed at any moment, engine and all: the next one finds everything that they have done.

The state is saved once, at the end of a run, so a killed one leaves none of it there. A few moments are
tried, chosen by the run's seed; twenty in `make test-all`.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest

from gpupool.environment.plan.model import ENVIRONMENT_LABEL, MANAGED_BY
from gpupool.environment.plan.resolve import read_plan
from gpupool.generators import generate
from gpupool.generators.kinds import KINDS
from gpupool.live.objects.orphans import Key, key_of
from tests.cluster.pulumi.conftest import World, begun, kill_all
from tests.examples import SEED
from tests.selection import LONG

KILLS = 20 if LONG else 2


def moments(steps: int, count: int = KILLS) -> list[int]:
    """After how many steps begun to kill, one in each of `count` equal parts of a run."""
    chosen = random.Random(SEED)
    found = [int(steps * (part + chosen.random()) / count) for part in range(count)]
    print(f"seed {SEED}: killed after {found} of {steps} steps")
    return found


def tenants(count: int) -> list[dict[str, Any]]:
    return [
        {"name": f"team-{n}", "namespace": f"trial-{n}", "pools": {"notebooks": {"gpus": 1}}}
        for n in range(count)
    ]


def killed(world: World, variables: dict[str, str], verb: str, steps: int) -> None:
    """`gpupool VERB`, and everything that belongs to it, killed when it has begun so many steps."""
    process = begun(world, variables, verb, steps)
    kill_all(process)


def rows(world: World) -> list[dict[str, Any]]:
    """The objects of the stack's state."""
    found = [path for path in world.state.rglob("trial.json") if path.parent.name == "gpupool"]
    if not found:
        return []
    latest = json.loads(found[0].read_text())["checkpoint"]["latest"] or {}
    return [row for row in latest.get("resources") or () if "kind" in (row.get("inputs") or {})]


def in_cluster(world: World) -> dict[Key, str]:
    """Everything with the labels of the environment -> its uid."""
    labels = f"{MANAGED_BY}=gpupool,{ENVIRONMENT_LABEL}=trial"
    found = [
        live for kind in KINDS for live in world.kube.api.list(kind.api_version, kind.name, None, labels)
    ]
    return {key_of(live): live["metadata"]["uid"] for live in found}


def assert_agreed(world: World) -> None:
    """File, state and cluster name the same objects, each once, and nothing is left of killed runs."""
    wanted = {key_of(manifest.body) for manifest in generate(read_plan(world.file))}
    live = in_cluster(world)
    assert set(live) == wanted
    stated = Counter((key_of(row["inputs"]), row["outputs"]["metadata"]["uid"]) for row in rows(world))
    assert stated == Counter(live.items())
    assert not list(world.state.rglob("unrecorded/gpupool/trial"))
    assert world.preview().objects == []


@pytest.mark.timeout(60 * KILLS + 480)
def test_an_up_that_is_killed_at_any_moment_is_completed_by_the_next(
    world: World, environment_variables: dict[str, str]
) -> None:
    """From nothing first, then with more tenants and another replica count each time; every second time the
    file loses a pool between the two runs."""
    world.spec["tenants"] = tenants(6)
    plain = len(generate(read_plan(world.file)).manifests)
    chosen = moments(plain)
    world.spec["tenants"] = []
    for number, moment in enumerate(chosen):
        pools = world.spec["pools"]
        many = 6 if number == 0 else len(world.spec["tenants"]) + 4
        world.spec["tenants"] = tenants(many)
        pools[0]["sharing"]["replicas"] = 2 + number
        steps = plain if number == 0 else 30
        before = rows(world)
        killed(world, environment_variables, "up", moment * steps // plain)
        assert rows(world) == before, "the state is saved in the middle of a run"
        if number % 2:
            world.spec["pools"] = pools[:1]
        assert "saved its state" in "\n".join(world.up().notes)
        assert_agreed(world)
        world.spec["pools"] = pools


def test_what_a_killed_run_has_deleted_is_made_again(
    world: World, environment_variables: dict[str, str]
) -> None:
    world.up()
    pools = world.spec["pools"]
    world.spec["pools"] = pools[:1]
    steps = len(world.preview().objects)
    killed(world, environment_variables, "up", steps)
    world.spec["pools"] = pools
    world.up()
    assert_agreed(world)


def test_a_destroy_that_is_killed_is_completed_by_the_next(
    world: World, environment_variables: dict[str, str]
) -> None:
    before = world.everything()
    world.spec["tenants"] = tenants(4)
    for moment in moments(60, max(2, KILLS // 4)):
        world.up()
        killed(world, environment_variables, "destroy", moment)
        world.destroy()
        assert in_cluster(world) == {}
        assert rows(world) == []
    assert world.everything() == before
