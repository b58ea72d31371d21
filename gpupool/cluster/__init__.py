"""The one Kubernetes client: requests, kubeconfig, and a snapshot of what a cluster holds.

Nothing here knows environments; nobody else may import a Kubernetes client library.
"""
