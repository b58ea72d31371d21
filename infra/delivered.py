"""Who applies an environment: `up` keeps its hands off what Argo CD or Flux delivers.

Two that apply the same objects take the fields from each other for ever, and what one of them has made the
other doesn't delete.
"""

from __future__ import annotations

import os

from gpupool.findings import GpupoolError
from gpupool.plan import Plan

VARIABLE = "GPUPOOL_DESPITE_GITOPS"
"""Set to anything, it makes plain `pulumi up` go on, as `--despite-gitops` does `gpupool up`."""


class DeliveredError(GpupoolError):
    """Somebody else applies this environment."""


def require_ours(plan: Plan, despite: bool = False) -> None:
    """Raise DeliveredError where Argo CD or Flux applies the environment, unless told `despite` it."""
    delivery = plan.delivery
    if not delivery.gitops or despite or os.environ.get(VARIABLE):
        return
    who = {"argocd": "Argo CD", "flux": "Flux"}[delivery.engine]
    name = plan.environment
    raise DeliveredError(
        f"{name} is delivered by {who} from {delivery.repo} ({delivery.path}), which would set back what is "
        f"applied from here; commit what `gpupool render {name} -o {delivery.path}` writes there instead. To "
        f"apply it from here all the same, with {who} suspended: gpupool up {name} --despite-gitops "
        f"(pulumi: {VARIABLE}=1)"
    )
