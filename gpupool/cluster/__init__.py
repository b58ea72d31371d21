"""The one Kubernetes client: requests, kubeconfig, a snapshot of a cluster, and a work queue for controllers.

Nothing here depends on environments; no other package may import a Kubernetes client library.
"""
