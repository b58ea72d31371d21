"""The Plan in force with what is worked out once for it: supply and hash.

API and roles share it, so that a job and a decision name the same Plan by the same hash. No I/O.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property

from gpupool.plan.model import Plan
from gpupool.queue.domain.supply import Supply, supply_of


@dataclass(frozen=True)
class InForce:
    plan: Plan

    @cached_property
    def supply(self) -> Supply:
        return supply_of(self.plan)

    @cached_property
    def hash(self) -> str:
        """Names the Plan: of the file's text and of everything that follows from it."""
        derived = json.dumps(self.plan.as_dict(), sort_keys=True, default=str)
        return hashlib.sha256(f"{self.plan.text}\n{derived}".encode()).hexdigest()[:16]
