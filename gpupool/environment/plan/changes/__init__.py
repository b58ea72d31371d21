"""What differs between two Plans of one environment: pools, tenants, cost. Pure values and arithmetic.

Does not depend on manifests, clusters or Git; `gpupool.review.report` works out what a difference does to
nodes.
"""
