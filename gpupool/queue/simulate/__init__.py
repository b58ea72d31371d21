"""Simulates an environment file with past jobs or a synthetic workload: the queue's own rounds,
Karpenter's nodes, prices and losses on one clock, without a cluster.

Nothing that runs in a cluster may import this.
"""
