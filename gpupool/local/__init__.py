"""The embedded local control plane: real Kubernetes parts as child processes, without containers.

`control_plane.ControlPlane` starts and stops it with the programs of `gpupool.programs`; `operator` simulates
the NVIDIA GPU Operator. The objects in the cluster decide what runs, not environments or plans: only
`sample_jobs` reads a plan, to run a job on every pool.
"""
