"""The pod runner: runs the command of pods with annotation gpupool.dev/run-locally as processes.

KWOK only says that pods run; this component plays the kubelet for those that ask for it. There is no
container: the image is not used, nothing is mounted, network and resources are the machine's, and the command
has the rights of the user who started the control plane. Only for the local control plane.
"""
