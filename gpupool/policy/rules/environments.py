"""Several environments together: no object and no node belongs to two of them.

Only environments with a Plan can be judged: a folder of manifests does not say which cluster it is for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from gpupool.environment.plan.model import Plan
from gpupool.policy.rules.bundle import ObjectSet
from gpupool.policy.rules.identity import key_of
from gpupool.policy.rules.rule import RuleViolation

Pair = tuple[ObjectSet, Plan, ObjectSet, Plan]


def _pairs(bundles: Sequence[ObjectSet]) -> Iterator[Pair]:
    planned = [(bundle, bundle.plan) for bundle in bundles if bundle.plan is not None]
    for (one, first), (other, second) in combinations(planned, 2):
        yield one, first, other, second


def shared_cluster(first: Plan, second: Plan) -> str | None:
    """What says that two environments mean one cluster; None where nothing does."""
    one, other = first.cluster, second.cluster
    if one.kube_context and one.kube_context == other.kube_context:
        return f"context {one.kube_context!r}"
    if (one.platform, one.name, one.region) == (other.platform, other.name, other.region):
        return f"cluster {one.name!r}"
    return None


def objects(bundles: Sequence[ObjectSet]) -> Iterator[RuleViolation]:
    """One finding for each pair of environments, with everything that they both own."""
    for one, first, other, second in _pairs(bundles):
        cluster = shared_cluster(first, second)
        if cluster is None:
            continue
        owned = {key_of(item) for item in one.objects}
        both = [item for item in other.objects if key_of(item) in owned]
        releases = {(release.namespace, release.name) for release in one.releases}
        installed = [release for release in other.releases if (release.namespace, release.name) in releases]
        shared: list[str] = [*map(str, installed), *map(str, both)]
        if shared:
            more = f" and {len(shared) - 3} more" if len(shared) > 3 else ""
            message = (
                f"{one.environment} and {other.environment} are both for {cluster}, and both own "
                f"{', '.join(shared[:3])}{more}: each would revert what the other applies"
            )
            values = {"environments": [one.environment, other.environment], "objects": shared}
            yield RuleViolation(message, both[0] if both else None, values=values)


def nodes(bundles: Sequence[ObjectSet]) -> Iterator[RuleViolation]:
    """Machines of static pools, by name anywhere and by selector within one cluster."""
    for one, first, other, second in _pairs(bundles):
        environments = [one.environment, other.environment]
        owner = {name: pool.name for pool in first.pools for name in pool.node_names}
        for pool in second.pools:
            for name in pool.node_names:
                if name in owner:
                    message = (
                        f"node {name!r} is in pool {owner[name]!r} of {one.environment} and in pool "
                        f"{pool.name!r} of {other.environment}"
                    )
                    yield RuleViolation(
                        message, path=f"pool {pool.name}", values={"environments": environments}
                    )
        if shared_cluster(first, second) is not None:
            yield from _selected(one.environment, first, other.environment, second)


def _selected(one: str, first: Plan, other: str, second: Plan) -> Iterator[RuleViolation]:
    for pool in first.pools:
        for rival in second.pools:
            mine, theirs = pool.node_selector.items(), rival.node_selector.items()
            if mine and theirs and (mine <= theirs or theirs <= mine):
                message = (
                    f"pool {pool.name!r} of {one} and pool {rival.name!r} of {other} select the same nodes"
                )
                yield RuleViolation(
                    message, path=f"pool {rival.name}", values={"selector": dict(rival.node_selector)}
                )
