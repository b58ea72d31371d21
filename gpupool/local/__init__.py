"""The embedded local control plane: real Kubernetes parts as child processes, without containers.

`control_plane.ControlPlane` starts and stops it, `binaries` finds or builds its parts, `operator`
plays the NVIDIA GPU Operator. Nothing here depends on environments, plans or generated manifests: the
objects in the cluster decide what the control plane runs.
"""
