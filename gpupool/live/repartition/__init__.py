"""Apply a changed layout or replica count to the running nodes of one pool, node by node, and take it back.

    shapes     what a node has and should have; read from plain objects
    verify     whether a node offers what it should
    order      which nodes, in which order and batches, and how long that is expected to take
    owner      that the cluster is the environment's
    windows    when the maintenance window is open
    steps      what to do next, from what is observed: pure, and the only place that decides
    configs    the operator's configurations while old and new live side by side
    journal    what survives a crash; the lock against two runs at once
    joined     the shapes of nodes that join during it
    karpenter  hold Karpenter off, and bring its records in line afterwards
    cluster    carries out one step
    closing    the final messages
    run        the loop

Every write is idempotent and is preceded by a note of the intention (the journal, the mark on the node), so
a run that is killed anywhere is taken up by the next one from what the cluster shows. Nothing here deletes a
pod or a node: jobs are waited for, or evicted by the API server's own eviction, which honours disruption
budgets and grace.
"""
