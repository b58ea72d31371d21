"""Compare a cluster with its environment: one snapshot of the server, one verdict."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime

from gpupool.environment.plan.model import Plan
from gpupool.findings import Category, FindingReport
from gpupool.generators import generate
from gpupool.live.cluster import snapshot
from gpupool.live.cluster.kube_api import KubeApi
from gpupool.live.drift import examine
from gpupool.live.drift.drift import Drift


@dataclass(frozen=True)
class DriftCheck:
    """What one comparison found."""

    environment: str
    drifts: tuple[Drift, ...]
    taken: datetime
    """When the cluster was asked, in UTC."""
    seconds: float
    """How long asking and judging took."""
    requests: int
    """List requests that it took."""
    objects: int
    """Objects that were compared."""

    def of(self, category: Category) -> tuple[Drift, ...]:
        """The differences of one category."""
        return tuple(drift for drift in self.drifts if drift.category is category)

    @property
    def clean(self) -> bool:
        """Whether the cluster is what the file says, apart from changes in progress."""
        return not self.of(Category.drift)

    @property
    def settled(self) -> bool:
        """Whether it is clean and no change is in progress."""
        return self.clean and not self.of(Category.settling)

    def finding_report(self, file: str) -> FindingReport:
        """All of it; `file` is the environment's."""
        counts = [len(self.of(name)) for name in (Category.drift, Category.settling, Category.warning)]
        drifts, settling, warnings = counts
        text = f"{drifts} difference{'s' if drifts != 1 else ''}"
        text = text if drifts else "the cluster matches the file"
        text += f", {settling} settling" if settling else ""
        text += f", {warnings} warning{'s' if warnings != 1 else ''}" if warnings else ""
        return FindingReport(
            command="assert",
            findings=self.drifts,
            summary=f"{self.environment}: {text} ({self.objects} objects, {self.seconds:.1f} s)",
            targets=(file,),
            seconds=self.seconds,
            more={
                "environment": self.environment,
                "clean": self.clean,
                "settled": self.settled,
                "taken": self.taken.isoformat(timespec="seconds").replace("+00:00", "Z"),
                "seconds": round(self.seconds, 3),
                "objects": self.objects,
                "listRequests": self.requests,
            },
        )


def assert_environment(plan: Plan, api: KubeApi, now: datetime | None = None, env: str = "") -> DriftCheck:
    """Compare the cluster once. Raises ApiError and UnreachableError where it can't be queried.

    `now` is the time of the comparison, for callers that must not wait for a time limit to pass;
    `env` is how the user names the environment.
    """
    started = time.monotonic()
    bundle = generate(plan)
    seen = snapshot.take(api, snapshot.queries(bundle), now)
    drifts = examine(plan, bundle, seen, now or datetime.now(UTC), env)
    counted = sum(len(held) for held in seen.objects.values())
    return DriftCheck(
        plan.environment, drifts, seen.taken, time.monotonic() - started, seen.requests, counted
    )
