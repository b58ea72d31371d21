"""Stand-ins for Pulumi's Kubernetes provider and Python language host, where the plugins are not available.

They implement Pulumi's plugin protocol (gRPC) and are started by `gpupool.infra.engine` or by `serve`.
"""
