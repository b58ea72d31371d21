"""What differs between two Plans of one environment: pools, tenants, cost. Pure values and arithmetic.

Knows no manifests, no cluster and no Git; what a difference does to nodes is for who knows what is generated.
"""
