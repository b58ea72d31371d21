"""A GPU Operator that somebody else runs: may its ClusterPolicy be pointed at our configurations, and
would it follow them?

Only reads. What is set there by its owner is refused rather than overwritten, because giving a field
up on destroy would not bring the owner's value back.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.cluster.kube_api import KubeApi
from gpupool.cluster.live_objects import OPERANDS, Object, cluster_policy, config_name
from gpupool.findings import GpupoolError
from gpupool.plan.model import Plan
from gpupool.plan.owned_settings import undoing

_OURS = "gpupool-"


def check(plan: Plan, api: KubeApi) -> None:
    """Raise GpupoolError where the ClusterPolicy that is to be patched is missing, has another name, is
    taken, or has settings that would undo the pools."""
    name, live = plan.gpu_operator.cluster_policy, cluster_policy(api)
    if live is None:
        raise GpupoolError(
            "there is no ClusterPolicy; install the GPU Operator, or let gpupool do it "
            "(gpuOperator.install: true)"
        )
    there = live["metadata"]["name"]
    if there != name:
        raise GpupoolError(
            f"the operator's ClusterPolicy is called {there}, and gpuOperator.clusterPolicy is {name}; write "
            f"gpuOperator.clusterPolicy: {there}"
        )
    if problems := list(_problems(plan, live)):
        raise GpupoolError("\n".join(problems))


def _problems(plan: Plan, live: Object) -> Iterator[str]:
    where = f"ClusterPolicy {live['metadata']['name']}: spec"
    partitioned = any(pool.mig_config for pool in plan.pools)
    for operand in OPERANDS if partitioned else OPERANDS[:1]:
        config = config_name(live, operand)
        if config and not config.startswith(_OURS):
            yield (
                f"{where}.{operand}.config.name is {config}, set by somebody else; clear it for the pools' "
                "configurations"
            )
    for setting in undoing(live.get("spec"), partitioned):
        yield f"{where}.{setting.name}: gpupool derives it: {setting.why}; remove it"
