"""What an environment says of its policies, with every default filled: a part of the Plan.

Frozen values; what the policies themselves are is in the files that are named here, and a check
reports whether a waiver has ended, since a rendering must not depend on the day.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gpupool.environment.spec.services import Waiver

Action = Literal["deny", "warn", "audit"]
"""What happens on a violation; from strict to lax."""
Scope = Literal["gpu", "cluster"]
"""What the policies that would judge other people's objects are limited to; `cluster`: to nothing."""


@dataclass(frozen=True, slots=True)
class PolicyLimits:
    """Limits of the shipped policies that sites can change. Durations in seconds."""

    registries: tuple[str, ...]
    """Host, or host and path, that images may come from; empty: any."""
    device_classes: tuple[str, ...]
    """DeviceClasses that claims may be for in tenants' namespaces."""
    job_ttl_seconds: int
    job_deadline_seconds: int
    job_retries: int
    budget_after_seconds: int
    """Jobs that may run longer are to name a budget."""
    pod_grace_seconds: int
    """Longest grace that a tenant's pod may ask for when it is deleted."""


@dataclass(frozen=True, slots=True)
class Policies:
    default: Action
    """At most this happens on a violation of any policy."""
    scope: Scope
    overrides: Mapping[str, Action]
    """Policy -> what happens instead."""
    waivers: tuple[Waiver, ...]
    limits: PolicyLimits
    files: tuple[Path, ...]
    """Files with the policies and bindings that are in force, by name."""

    def waivers_of(self, policy: str) -> tuple[Waiver, ...]:
        """The waivers of the policy of that name."""
        return tuple(waiver for waiver in self.waivers if waiver.policy == policy)
