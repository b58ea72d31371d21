"""The one Kubernetes client: requests, kubeconfig, and a snapshot of what a cluster holds.

Nothing here depends on environments; no other package may import a Kubernetes client library.
"""
