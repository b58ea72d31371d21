"""What a rule about risks may look at."""

from __future__ import annotations

from dataclasses import dataclass

from gpupool.plan import Plan
from report.model import EnvironmentReport


@dataclass(frozen=True, slots=True)
class Context:
    """What a rule may look at."""

    report: EnvironmentReport
    before: Plan | None
    after: Plan | None
    cost_threshold: float
    """Percent."""
