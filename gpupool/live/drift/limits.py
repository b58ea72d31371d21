"""How long a change may be in progress before it counts as drift. Seconds, each with its source."""

from __future__ import annotations

NOT_READY = 300.0
"""A node that is not Ready: after so long Kubernetes evicts its pods (default toleration of
node.kubernetes.io/not-ready, 300 s; admission plugin DefaultTolerationSeconds, Kubernetes 1.36)."""
LAUNCH = 300.0
"""A claim without a machine: Karpenter gives up after 5 minutes (launchTimeout, Karpenter 1.14.1)."""
REGISTRATION = 900.0
"""A machine that has not joined: Karpenter gives up after 15 minutes (registrationTimeout, 1.14.1)."""
INITIALISATION = 900.0
"""A node whose GPUs have not come. Karpenter itself waits for ever (karpenter-provider-azure issue 1790); a
driver that is compiled on the node and a MIG reboot take some 10 minutes (gpu-operator issue 708)."""
START = 900.0
"""A fresh node that existed before (no Karpenter): the same work of the operator's."""
MIG = 900.0
"""A node in state pending or rebooting: the MIG manager waits 5 minutes for GPU clients to stop, and stays
`pending` for ever where they don't (gpu-operator issue 2833, mig-parted v0.15.0)."""
OPERATOR = 120.0
"""After a change of the operator's settings, until the first nodes must show it where no pod of the operator
shows more: kubelets learn of changed ConfigMaps within 60 to 90 s (Kubernetes documentation, mounted
ConfigMaps), the plugin starts within seconds."""
CONTROLLER = 60.0
"""A controller that has not judged an object yet; Karpenter takes seconds."""
PENDING = 120.0
"""A pod that waits at a full pool. A pool about to grow starts a node within seconds."""
REPLACEMENT = 3600.0
"""A node that Karpenter is to replace: it does so when the pool's budget allows. For pools with a maintenance
window it is WINDOW."""
WINDOW = 8 * 86400.0
"""The same with a window, which opens at least once a week."""
DRAIN = 3600.0
"""A node claim being deleted: jobs are waited for."""
