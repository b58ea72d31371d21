"""Labels, annotations and resources that the simulated operator reads or writes; and how they are made."""

from __future__ import annotations

# Inputs: the GPU Operator's own (gpu-operator v26.7.0, k8s-device-plugin v0.20.0, mig-parted v0.15.0).
PLUGIN_CONFIG_LABEL = "nvidia.com/device-plugin.config"
MIG_CONFIG_LABEL = "nvidia.com/mig.config"
MIG_STATE_LABEL = "nvidia.com/mig.config.state"
DEPLOY_PREFIX = "nvidia.com/gpu.deploy."
OPT_OUT_LABEL = DEPLOY_PREFIX + "operands"
PRESENT_LABEL = "nvidia.com/gpu.present"
INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type"

GPU = "nvidia.com/gpu"
MIG_PREFIX = "nvidia.com/mig-"
SHARED_SUFFIX = ".shared"

NAMESPACE = "gpu-operator"
"""Where the operator runs, unless its ClusterPolicy says otherwise."""
NAMESPACE_ANNOTATION = "simulated.gpupool.dev/namespace"
"""On the ClusterPolicy: the namespace that the operator runs in. A real one knows it from its own pod."""
MIG_CONFIG_KEY = "config.yaml"

# Inputs of the simulation alone: what hardware a node has and how it shall misbehave.
GPU_ANNOTATION = "simulated.gpupool.dev/gpu"
"""Catalog key of the GPU of a node that no cloud provider made."""
GPUS_ANNOTATION = "simulated.gpupool.dev/gpus"
"""How many of them; 1 without it."""
FAIL_ANNOTATION = "simulated.gpupool.dev/fail"
"""`mig` or `plugin`: that operand fails on this node."""
DELAY_ANNOTATION = "simulated.gpupool.dev/delay"
"""For example 5s: how long each operand takes on this node."""

# Outputs of the simulation alone.
STATE_ANNOTATION = "simulated.gpupool.dev/state"
"""What the operands on this node have loaded, as JSON; survives a restart of the simulation."""
ERROR_ANNOTATION = "simulated.gpupool.dev/error"
"""Why an operand on this node is in trouble; gone when none is."""


def mig_resource(profile: str) -> str:
    """The resource of a profile under the mixed strategy; `+` is not allowed in names and becomes `.`."""
    return MIG_PREFIX + profile.replace("+", ".")
