"""The input of rules about risks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpupool.plan.model import Plan, Pool
from gpupool.report.model import EnvironmentReport


@dataclass(frozen=True, slots=True)
class Context:
    """The input of a rule."""

    report: EnvironmentReport
    before: Plan | None
    after: Plan | None
    cost_threshold: float
    """Percent."""

    @property
    def kept_pools(self) -> Iterator[tuple[Pool, Pool]]:
        """Each pool that both plans have, before and after, in the order of the one after."""
        old = {pool.name: pool for pool in self.before.pools} if self.before else {}
        for pool in self.after.pools if self.after else ():
            if pool.name in old:
                yield old[pool.name], pool
