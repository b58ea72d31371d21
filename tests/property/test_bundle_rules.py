"""Bundle rules over random environments: silent on what the generators make, loud on what is broken in it."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, example, given
from hypothesis import strategies as st

from gpupool.policy.rules import ObjectSet, check_bundle
from gpupool.policy.rules.fields import count
from tests.environment_files import Data, plan_of
from tests.environment_strategies import environments
from tests.examples import examples
from tests.policy.rules.drafts import SHIPPED, Draft, draft_of, shipped

slow = examples("environments", 60)

COUNTED_ON = (
    "ConfigMap",
    "EC2NodeClass",
    "KWOKNodeClass",
    "Node",
    "NodeOverlay",
    "NodePool",
    "PriorityClass",
)
"""Kinds of which the Plan or another object needs every one that is generated."""


def referred(draft: Draft) -> list[tuple[str, str]]:
    """Kind and name of what a bundle is broken without."""
    bodies = [*draft.bodies, *draft.patches]
    bindings = [body for body in bodies if body["kind"] == "RoleBinding"]
    named = {(binding["roleRef"]["kind"], binding["roleRef"]["name"]) for binding in bindings}
    named |= {
        (subject["kind"], subject["name"])
        for binding in bindings
        for subject in binding["subjects"]
        if subject.get("namespace") == "gpupool-system"
        # Accounts beside a Helm release may belong to it.
        and not any(release.namespace == "gpupool-system" for release in draft.releases)
    }
    named |= {("Namespace", body["metadata"].get("namespace")) for body in bodies}
    # A quota of an environment without pools names no GPUs, and nothing that counts is missing without it.
    named |= {
        ("ResourceQuota", body["metadata"]["name"])
        for body in bodies
        if body["kind"] == "ResourceQuota"
        and body["metadata"]["name"] in ("gpupool", "gpupool-granted")
        and any(name.startswith("requests.nvidia.com/") for name in body["spec"]["hard"])
    }
    identities = [(body["kind"], body["metadata"]["name"]) for body in bodies]
    return [
        found
        for found in identities
        if (found[0] in COUNTED_ON or found in named) and not found[1].startswith("gpupool-dashboard-")
    ]


@given(environments())
@slow
def test_what_is_generated_is_clean(environment: Data) -> None:
    findings = draft_of(plan_of(environment)).findings()
    # Cautions about what the file says, and rightly: 15 replicas of a P4 have less than half a GiB each, and
    # without karpenter.amiAlias nodes are replaced when AWS publishes an image.
    cautions = ("slices-have-memory", "machine-images-pinned")
    assert [finding for finding in findings if finding.rule not in cautions] == []


@given(environments(), st.data())
@slow
def test_a_missing_object_is_noticed(environment: Data, data: st.DataObject) -> None:
    draft = draft_of(plan_of(environment))
    kind, name = data.draw(st.sampled_from(referred(draft)))
    draft.drop(kind, name)
    assert any(finding.level == "deny" for finding in draft.findings())


@given(st.sampled_from(SHIPPED), st.data())
@slow
def test_a_missing_object_of_a_shipped_environment_is_noticed(name: str, data: st.DataObject) -> None:
    draft = shipped(name)
    kind, missing = data.draw(st.sampled_from(referred(draft)))
    draft.drop(kind, missing)
    assert any(finding.level == "deny" for finding in draft.findings())


NUMBERS = ("capacity", "limits", "hard")


def numbers(value: Any, path: tuple[Any, ...] = (), inside: bool = False) -> list[tuple[Any, ...]]:
    """Paths of GPU counts in overlays, NodePools and quotas."""
    if isinstance(value, dict):
        return [
            found
            for key, inner in value.items()
            for found in numbers(inner, (*path, key), inside or key in NUMBERS)
        ]
    return [path] if inside and (path[-1] == "nodes" or "nvidia.com/" in path[-1]) else []


@given(environments(), st.integers(-10, 10).filter(bool), st.data())
@slow
def test_a_changed_number_is_noticed(environment: Data, by: int, data: st.DataObject) -> None:
    draft = draft_of(plan_of(environment))
    kinds = ("NodeOverlay", "NodePool", "ResourceQuota")
    places = [
        (index, path)
        for index, body in enumerate(draft.bodies)
        if body["kind"] in kinds
        for path in numbers(body["spec"], ("spec",))
    ]
    assume(places)
    index, path = data.draw(st.sampled_from(places))
    place = draft.bodies[index]
    for part in path[:-1]:
        place = place[part]
    changed = int(place[path[-1]]) + by
    assume(changed >= 0)
    place[path[-1]] = str(changed)
    assert any(finding.level == "deny" for finding in draft.findings()), (path, changed)


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("nvidia.com/gpu"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.integers(), inner),
    max_leaves=6,
)


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place inside `value`."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] * bool(path) + [found for key, inner in pairs for found in paths(inner, (*path, key))]


@given(
    st.sampled_from(SHIPPED), st.booleans(), st.lists(st.tuples(st.integers(0), junk), min_size=1, max_size=4)
)
@examples("environments", 150)
def test_junk_is_never_an_error(name: str, planned: bool, changes: list[tuple[int, Any]]) -> None:
    """The contents of a folder are unchecked; rules accept anything without a crash."""
    draft = shipped(name)
    for seed, value in changes:
        body = (draft.bodies + draft.patches)[seed % len(draft.bodies + draft.patches)]
        found = paths(body)
        if found:
            place: Any = body
            *way, last = found[seed // 7 % len(found)]
            for part in way:
                place = place[part]
            place[last] = value
    bodies, patches = draft.bodies, draft.patches
    check_bundle(
        ObjectSet.of(
            name, bodies, patches=patches, releases=draft.releases, plan=draft.plan if planned else None
        )
    )


@given(junk)
def test_a_count_is_a_whole_number_or_nothing(value: Any) -> None:
    found = count(value)
    assert found is None or isinstance(found, int)


@given(
    st.integers(0, 10**15), st.sampled_from([("", 1), ("k", 1000), ("M", 10**6), ("Ki", 1024), ("Gi", 2**30)])
)
@example(0, ("", 1))
def test_counts_are_read_as_quantities(number: int, suffix: tuple[str, int]) -> None:
    exact = number * suffix[1]
    capped = min(exact, 2**63 - 1) if suffix[0].endswith("i") else exact  # as the server does
    assert count(f"{number}{suffix[0]}") == capped
    assert count(number) == number
