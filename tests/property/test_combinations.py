"""Every legal combination of what an environment may be is accepted: by `validate`, by the CRDs of what it
renders, and by the environment's own policies. Offline; tests/cluster/delivery/test_strict.py asks servers.

Runs that take a share of the combinations take those of `COVERING` in any case: each legal pair of values is
in one of them.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.environment.plan.checks.names import POOL_NAME_MAX
from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.resolve import read_plan, resolve
from gpupool.environment.spec.load import check_shape
from gpupool.environment.spec.yaml_source import parse_source
from gpupool.findings import SpecError
from gpupool.findings.of_policy import policy_finding
from gpupool.generators import generate
from gpupool.policy.gate import beyond_limits, describe, judge
from tests.conftest import FIGURE
from tests.custom_resources import Definition, definitions
from tests.environment_combinations import (
    COVERING,
    FACETS,
    LEGAL,
    Combination,
    combinations_of,
    environment_of,
    legal,
)
from tests.environment_files import Data, plan_of, text_of
from tests.environment_strategies import environments
from tests.examples import examples
from tests.required_programs import require_definitions
from tests.selection import some
from vapcheck.policy.compiled_policy import Compiler

ROOT = Path(__file__).parents[2]
SHIPPED = sorted([*ROOT.glob("environments/*.yaml"), *ROOT.glob("examples/**/*.yaml")])
TODAY = date(2026, 11, 1)
COMPILER = Compiler()
CHOSEN = sorted({*COVERING, *some("environments", LEGAL, 200)})
JUDGED = sorted({*COVERING, *LEGAL[:: len(LEGAL) // 160]})
"""Combinations for policies, of which each takes 50 milliseconds."""


def denials(plan: Plan) -> list[str]:
    """What the environment's own policies, and the rules over all of it, deny of it."""
    report = judge(plan, TODAY, compiler=COMPILER)
    return [describe(policy_finding(finding)) for finding in report.findings if finding.level == "deny"]


def test_every_legal_pair_of_values_occurs(record_property: Any) -> None:
    pairs = {pair for combination in LEGAL for pair in combination.pairs()}
    assert {pair for combination in COVERING for pair in combination.pairs()} == pairs
    values = {value for pair in pairs for value in pair}
    assert values == {(name, value) for name, values in FACETS.items() for value in values}
    record_property(
        FIGURE,
        f"legal pairs of values: {len(pairs)}, all of them in {len(COVERING)} of {len(LEGAL)} combinations",
    )


def test_an_environment_is_what_its_combination_says() -> None:
    assert {combination: combinations_of(environment_of(combination)) for combination in LEGAL} == {
        combination: {combination} for combination in LEGAL
    }


def illegal() -> Iterator[Combination]:
    """Combinations that a file can be written for, though none may be."""
    for values in itertools.product(*FACETS.values()):
        it = Combination(*values)
        written = ("karpenter" in it.kinds) == (it.capacity != "existing")
        if written and (it.operator != "cloud" or it.platform == "gke") and not legal(it):
            yield it


def test_all_others_are_refused() -> None:
    """So that none which is legal is missing from `LEGAL`."""
    chosen = some("environments", list(illegal()), 200)
    accepted = []
    for combination in chosen:
        try:
            plan_of(environment_of(combination))
        except SpecError:
            continue
        accepted.append(combination)
    assert accepted == []


@pytest.fixture(scope="module")
def served() -> dict[tuple[str, str], Definition]:
    return definitions(require_definitions())


def test_definitions_take_every_object(
    served: dict[tuple[str, str], Definition], record_property: Any
) -> None:
    judged: dict[str, list[str]] = {}
    kinds = Counter[str]()
    for combination in CHOSEN:
        for manifest in generate(plan_of(environment_of(combination))):
            definition = served.get((manifest.api_version, manifest.kind))
            text = json.dumps(manifest.body, sort_keys=True)
            if definition is None or manifest.patch or text in judged:
                continue
            judged[text] = [
                f"{combination}: {manifest}: {row}" for row in definition.problems(dict(manifest.body))
            ]
            kinds[manifest.kind] += 1
    assert [row for rows in judged.values() for row in rows] == []
    counted = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    record_property(
        FIGURE, f"combinations whose objects the CRDs take: {len(CHOSEN)} of {len(LEGAL)} ({counted})"
    )


def test_policies_take_every_combination(record_property: Any) -> None:
    refused = {combination: denials(plan_of(environment_of(combination))) for combination in JUDGED}
    assert {combination: rows for combination, rows in refused.items() if rows} == {}
    record_property(FIGURE, f"combinations that their own policies take: {len(JUDGED)} of {len(LEGAL)}")


def is_environment(path: Path) -> bool:
    return "kind: Environment" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "path", [path for path in SHIPPED if is_environment(path)], ids=lambda path: str(path.relative_to(ROOT))
)
def test_policies_take_what_is_shipped(path: Path) -> None:
    assert denials(read_plan(str(path))) == []


limits = st.fixed_dictionaries(
    {},
    optional={
        "registries": st.sampled_from(
            ([], ["registry.example.com"], ["registry.k8s.io", "registry.example.com/ml"])
        ),
        "jobTtl": st.sampled_from(("1m", "168h")),
        "jobDeadline": st.sampled_from(("336h", "720h")),
        "jobRetries": st.integers(0, 100),
        "budgetAfter": st.sampled_from(("1s", "12h")),
        "podGrace": st.sampled_from(("0s", "1h")),
    },
)
"""Of policies: what sites hold workloads to must not hold up gpupool's own."""


def policed(environment: Data, policies: Data) -> Plan | None:
    """None where `validate` says why not."""
    try:
        return plan_of({**environment, "policies": policies})
    except SpecError:
        return None


@examples("environments", 60)
@given(environments(), limits)
def test_policies_take_random_environments(environment: Data, policy_limits: Data) -> None:
    plan = policed(environment, {"limits": policy_limits})
    assert plan is None or denials(plan) == []


def test_policies_take_the_pods_of_warm_nodes_where_registries_are_listed() -> None:
    environment = environment_of(next(it for it in LEGAL if it.capacity == "on-demand"))
    plan = policed(environment, {"limits": {"registries": ["registry.example.com"]}})
    assert plan is None or denials(plan) == []


@pytest.mark.parametrize("expire", ["Never", "720h"])
@pytest.mark.parametrize("consolidate", ["Never", "10m"])
def test_policies_take_nodes_that_stay(expire: str, consolidate: str) -> None:
    environment = environment_of(next(it for it in LEGAL if it.capacity == "reserved"))
    environment["pools"][0]["nodes"] |= {"expireAfter": expire, "consolidateAfter": consolidate}
    assert denials(plan_of(environment)) == []


def with_longest_names(environment: Data) -> Data:
    """The environment with names as long as the file takes them."""
    text = text_of(environment)
    for pool in environment["pools"]:
        text = text.replace(f'"{pool["name"]}"', f'"{pool["name"]:x<{POOL_NAME_MAX}}"')
    for name in ("serving", "research", "team-vision", "vision", "search"):
        text = text.replace(f'"{name}"', f'"{name:x<63}"')
    longest: Data = json.loads(
        text.replace('team-vision/default"', f'{"team-vision":x<63}/{"default":x<253}"')
    )
    return longest


@pytest.mark.parametrize("combination", COVERING[::3], ids=str)
def test_the_longest_names_fit(combination: Combination) -> None:
    environment = with_longest_names(environment_of(combination))
    loaded = check_shape(parse_source("random.yaml", text_of(environment).encode()))
    plan = resolve(loaded)
    assert beyond_limits(loaded, plan, generate(plan)) == []
    assert denials(plan) == []
    assert max(len(manifest.name) for manifest in generate(plan)) > 63
