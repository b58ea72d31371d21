"""Kubernetes objects as plain values: what differs between two of them, who set which field, and whose they
are. Nothing here asks a cluster."""
