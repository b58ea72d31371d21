"""The embedded local control plane: real Kubernetes parts as child processes, without containers.

`control_plane.ControlPlane` starts and stops it, `binaries` finds or builds its parts, `operator`
plays the NVIDIA GPU Operator. Nothing here knows environments, plans or generated manifests: what the
control plane runs is decided by what is in the cluster.
"""
