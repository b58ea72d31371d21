"""Stand-ins for Pulumi's Kubernetes provider and Python language host, where the plugins can't be had.

They speak Pulumi's plugin protocol (gRPC) and are started by `infra.engine` or by `serve`.
"""
