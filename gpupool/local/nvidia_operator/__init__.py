"""NVIDIA's own controller of the GPU Operator on the local control plane, and what it needs around it.

It is the unchanged program of the pinned module. Its rights are those of the account that the chart makes, and its
operands are DaemonSets whose pods KWOK plays. There are no GPUs, so that what the operands would do on a node
(advertise, label, partition) stays with `gpupool.local.operator`, and what Node Feature Discovery would say of
a node is said here.
"""
