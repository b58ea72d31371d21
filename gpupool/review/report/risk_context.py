"""The input of rules about risks."""

from __future__ import annotations

from dataclasses import dataclass

from gpupool.environment.plan.model import Plan
from gpupool.review.report.model import EnvironmentReport


@dataclass(frozen=True, slots=True)
class RiskContext:
    """The input of a rule."""

    report: EnvironmentReport
    before: Plan | None
    after: Plan | None
    cost_threshold: float
    """Percent."""
