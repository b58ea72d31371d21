"""What an environment file would do with jobs of the past, or with made ones: the queue's own rounds,
Karpenter's nodes, prices and losses on one clock, without a cluster.

Nothing that runs in a cluster may import this.
"""
