"""One environment in one state, as far as it is known: its plan and all its manifests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpupool.environment.plan.model import Plan, Pool
from gpupool.generators.manifest import Bundle


@dataclass(frozen=True, slots=True)
class EnvironmentState:
    plan: Plan
    bundle: Bundle
    """What `plan` generates."""


def kept_pools(old: Plan, new: Plan) -> Iterator[tuple[Pool, Pool]]:
    """Each pool that both plans have, before and after, in the order of the one after."""
    before = {pool.name: pool for pool in old.pools}
    for pool in new.pools:
        if pool.name in before:
            yield before[pool.name], pool
