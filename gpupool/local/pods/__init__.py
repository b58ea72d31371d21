"""The pod runner: runs the command of pods with annotation gpupool.dev/run-locally as processes.

KWOK only says that pods run; this component plays the kubelet for those that ask for it. There is no
container: the image is not used, nothing is mounted, and network and resources are the machine's. What a
command gets and whose rights it has, `gpupool.programs.local_command` says. Only for the local control plane.
"""
