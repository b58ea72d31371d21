"""Which tool applies an environment: `up` and `destroy` refuse to change what Argo CD or Flux delivers.

Two tools that apply the same objects would overwrite each other's fields for ever, and neither deletes what
the other has made.
"""

from __future__ import annotations

import os

from gpupool.environment.plan.model import Plan
from gpupool.findings import GpupoolError

VARIABLE = "GPUPOOL_DESPITE_GITOPS"
"""Set to anything, it is for plain `pulumi up` the equivalent of `--despite-gitops`."""


class DeliveredError(GpupoolError):
    """Another tool applies this environment."""


def require_ours(plan: Plan, despite: bool = False, command: str = "up") -> None:
    """Raise DeliveredError where Argo CD or Flux applies the environment, unless `despite` is set.

    `command` is what was asked for: `up` or `destroy`.
    """
    delivery = plan.delivery
    if not delivery.gitops or despite or os.environ.get(VARIABLE):
        return
    who = delivery.by.title
    name = plan.environment
    if command == "up":
        reason = (
            "which would revert changes that are applied from here; commit the "
            f"output of `gpupool render {name} -o {delivery.path}` there instead. To apply it from here"
        )
    else:
        reason = (
            "which would recreate what is deleted here; remove it there first. To remove an old "
            f"stack without deleting objects: pulumi stack rm {name} --force. To destroy it from here"
        )
    raise DeliveredError(
        f"{name} is delivered by {who} from {delivery.repo} ({delivery.path}), {reason} anyway, with {who} "
        f"suspended: gpupool {command} {name} --despite-gitops (pulumi: {VARIABLE}=1)"
    )
