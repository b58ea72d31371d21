"""NVIDIA's own controller of the GPU Operator on the local control plane, with its prerequisites.

It is the unchanged program of the pinned module. Its rights are those of the account that the chart makes,
and its operands are DaemonSets whose pods KWOK plays. There are no GPUs: what the operands would do on a node
(advertise, label, partition) is simulated by `gpupool.local.operator`, and the labels of Node Feature
Discovery are written here.
"""
