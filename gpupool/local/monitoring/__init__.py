"""A real Prometheus beside the local control plane, with an exporter of simulated GPU metrics.

Which pod holds which slice is taken from the cluster, so that figures follow jobs; how much is made up.
"""
