"""The simulated GPU Operator: device plugin, feature discovery and MIG manager for nodes without GPUs.

An independent reader of what was generated. It acts only on what is in the cluster (ClusterPolicy, the
ConfigMaps that names, node labels, taints and annotations) and on the catalog's hardware facts. It must
not import the plan, the environment models, the generators or `gpupool.environment.sharing`, nor read
environments/.

Where upstream parsers silently accept anything, this one is strict, so that tests find mistakes; where
upstream ignores a change (an edited ConfigMap), this one ignores it too.

Left out, because there is no kubelet to do it: admission of a pod to a particular device, so
failRequestsGreaterThanOne has no effect; and the moment in which a node with a preset MIG layout still
offers whole GPUs (gpu-operator issue 2670).
"""
