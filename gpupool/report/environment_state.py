"""One environment in one state, as far as it is known: its plan and all its manifests."""

from __future__ import annotations

from dataclasses import dataclass

from generators.manifest import Bundle
from gpupool.plan.model import Plan


@dataclass(frozen=True, slots=True)
class EnvironmentState:
    plan: Plan
    bundle: Bundle
    """What `plan` generates."""
