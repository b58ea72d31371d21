"""Plan -> list of manifests. Pure: no files, no clock, no cluster; one concern per module.

GENERATORS is the only place where a generator is registered. Generators do not depend on each other; what two
of them must agree on (a name, a label) is in `gpupool.generators.metadata` or in the Plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gpupool.environment.plan.model import Plan
from gpupool.generators import (
    admission_policies,
    assertion,
    device_plugin,
    gpu_operator,
    karpenter,
    mig_parted,
    namespaces,
    network,
    node_classes,
    node_overlays,
    node_pools,
    policy_parameters,
    priorities,
    queue_release,
    quotas,
    rbac,
    static_nodes,
    warm_nodes,
)
from gpupool.generators.manifest import Bundle, HelmRelease, Manifest, bundle
from gpupool.generators.monitoring import objects as monitoring

GENERATORS: tuple[Callable[[Plan], Iterable[Manifest | HelmRelease]], ...] = (
    namespaces.generate,
    priorities.generate,
    rbac.generate,
    quotas.generate,
    network.generate,
    device_plugin.generate,
    mig_parted.generate,
    monitoring.generate,
    gpu_operator.generate,
    karpenter.generate,
    queue_release.generate,
    node_classes.generate,
    node_overlays.generate,
    node_pools.generate,
    static_nodes.generate,
    warm_nodes.generate,
    assertion.generate,
    policy_parameters.generate,
    admission_policies.generate,
)


_OF_THE_OPERATOR = {device_plugin.generate, mig_parted.generate, gpu_operator.generate}
"""What shares GPUs where the cloud does not."""


def generate(plan: Plan) -> Bundle:
    """All manifests of `plan`, in application order."""
    chosen = [each for each in GENERATORS if plan.uses_gpu_operator or each not in _OF_THE_OPERATOR]
    parts = (part for generator in chosen for part in generator(plan))
    return bundle(plan.environment, parts, plan.delivery, plan.gpu_operator.namespace)


__all__ = ["GENERATORS", "Bundle", "HelmRelease", "Manifest", "generate"]
