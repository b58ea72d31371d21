"""Access to a cluster: clients, kubeconfig, a snapshot of a cluster, and a work queue for controllers.

No other package may import a Kubernetes client library. Nothing here depends on
environments, but for `snapshot`: it lists the kinds that one has.
"""
