"""Everything that touches a cluster or Pulumi: the program, its resources, and the local control plane.

Layers: above `generators` and the `gpupool` core, below `cli`. Only this package may import pulumi
or talk to a Kubernetes API.
"""
